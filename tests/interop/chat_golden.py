"""Makes `tests/golden/tiny-chat.json`: conversations as transformers renders and tokenises them.

Run it with a tiny policy's folder, such as `policy-start` of a run directory, in an environment with
transformers and torch; only a change of the tiny policy's tokenizer, its template or this script
needs a new run:

    python tests/interop/chat_golden.py RUN/policy-start tests/golden/tiny-chat.json

The file holds `conversations` (messages and tools as art-learner's conversation.rs writes them) and
`templates`. The first template is null, the folder's own, whose texts come with their token ids; the
others are written here in the ways of speaking that models' own templates use. `texts[i]` belongs to
`conversations[i]`, and is null where the template refuses the conversation.
"""

import json
import sys

import transformers

ADD = {
    "name": "add",
    "description": "Adds two numbers: <a> & 'b'.",
    "parameters": '{"type":"object","properties":{"b":{"type":"number","minimum":1e-7},'
    '"a":{"type":"number","default":2.50,"enum":[1.0,1e22,null,true]}},"required":[]}',
}


def call(name: str, arguments: str) -> dict:
    return {"id": "call-1", "name": name, "arguments": arguments}


def message(role: str, content: str, **more) -> dict:
    return {"role": role, "content": content, **more}


CONVERSATIONS = [
    dict(messages=[message("user", "Tic-tac-toe, you are x.\n1 2 3\n4 5 6\n7 8 9")]),
    dict(
        messages=[
            message("system", "  You are kind.\n"),
            message("user", "Hi \t there 1234!"),
            message("assistant", "<think>\nso it is\n</think>\n\nHello, 世界 😀"),
            message("user", "what's <|end|> for?\r\n\r\n   x"),
        ]
    ),
    dict(
        messages=[
            message("user", "2.5 + 1?"),
            message("assistant", "", tool_calls=[call("add", '{"b": 1, "a": 2.50, "é": [null]}')]),
            message("tool", '{"sum": 3.5}', tool_call_id="call-1", name="add"),
            message("assistant", "<think>easy</think>3.5"),
            message("user", "Thanks"),
        ],
        tools=[ADD],
    ),
    dict(messages=[message("user", "a"), message("assistant", "b ")], add_generation_prompt=False),
    dict(messages=[message("user", "a"), message("user", "b")]),
    dict(messages=[message("user", "a"), message("assistant", "", tool_calls=[call("f", "oops")])]),
]

TEMPLATES = [
    None,
    # Alternation is checked, the system message goes into the first turn, contents are trimmed.
    """{{ bos_token }}{% if messages[0]['role'] == 'system' %}
    {% set system = messages[0]['content'] | trim + '\\n\\n' %}
    {% set messages = messages[1:] %}
{% else %}
    {% set system = '' %}
{% endif %}
{% for message in messages %}
    {% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{ raise_exception('Roles must alternate') }}
    {% endif %}
    {% if loop.index0 == 0 %}
        {% set content = system + message['content'] %}
    {% else %}
        {% set content = message['content'] %}
    {% endif %}
    {{- '[' ~ message.role | upper ~ '] ' ~ content.strip() }}
    {%- if message.role == 'assistant' %}{{ eos_token }}{% endif %}
{% endfor %}
""",
    # Reasoning before the last question is dropped, found by walking backwards; tools are listed.
    """{%- if tools %}
    {{- '<s>tools\\n' }}
    {%- for tool in tools %}
        {{- tool | tojson }}
        {{- "\\n" }}
    {%- endfor %}
    {{- '</s>\\n' }}
{%- endif %}
{%- set ns = namespace(last=messages|length - 1, searching=true) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" and not message.content.startswith('<t>') %}
        {%- set ns.searching = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if message.role == "assistant" %}
        {%- set thought = '' %}
        {%- if message.reasoning_content is defined and message.reasoning_content is not none %}
            {%- set thought = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1] %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<s>assistant\\n' }}
        {%- generation %}
        {%- if loop.index0 > ns.last or (loop.last and thought) %}
            {{- '<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- content }}
        {%- for call in message.tool_calls %}
            {%- if call.function %}
                {%- set call = call.function %}
            {%- endif %}
            {{- '\\n<call>{"name": "' + call.name + '", "arguments": ' }}
            {%- if call.arguments is string %}
                {{- call.arguments }}
            {%- else %}
                {{- call.arguments | tojson }}
            {%- endif %}
            {{- '}</call>' }}
        {%- endfor %}
        {{- '</s>\\n' }}
        {%- endgeneration %}
    {%- elif message.role == "tool" %}
        {%- if loop.first or messages[loop.index0 - 1].role != "tool" %}
            {{- '<s>user' }}
        {%- endif %}
        {{- '\\n<t>' ~ content ~ '</t>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != "tool" %}
            {{- '</s>\\n' }}
        {%- endif %}
    {%- else %}
        {{- '<s>' + message.role + '\\n' + content + '</s>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<s>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
""",
    # Values are printed raw, macros build schemas, loops are left early, JSON is indented.
    """{% macro kind(schema, depth=0) -%}
    {%- for key, value in schema.properties.items() %}
        {{- ' ' * depth ~ key ~ ': ' ~ value.type ~ (' = ' ~ value.default if 'default' in value) }};
        {{- value.get('enum') }} {{ value.enum is defined }}
    {%- endfor %}
{%- endmacro -%}
{% if tools is not none and tools | length > 0 -%}
{% for tool in tools | selectattr('type', 'equalto', 'function') %}
{{ loop.index }}/{{ loop.length }} {{ kind(tool.function.parameters, depth=2) }}
{{ tool.function | tojson(indent=4) }}
{% endfor %}
{% endif %}
{% for message in messages if message.role in ['user', 'tool'] %}
{% if loop.index > 2 %}{% break %}{% endif %}
{{ message }}
{{ message.name | default('nobody') }} {{ message.content | length }} {{ loop.last }} {{ none }}
{{ messages | map(attribute='role') | join(', ') }} {{ message.content.splitlines() }}
{%- endfor %}
{{ not add_generation_prompt }} {{ 7 / 2 }} {{ 7 // 2 }} {{ 2 ** 3 }} {{ 1.0 }}
""",
]


def as_transformers(message: dict) -> dict:
    message = dict(message)
    if calls := message.pop("tool_calls", None):
        message["tool_calls"] = [as_function(call) for call in calls]
    return message


def as_function(call: dict) -> dict:
    try:
        arguments = json.loads(call["arguments"])
        assert isinstance(arguments, dict)
    except ValueError:
        arguments = call["arguments"]
    function = {"name": call["name"], "arguments": arguments}
    return {"id": call["id"], "type": "function", "function": function}


def as_schema(tool: dict) -> dict:
    function = {**tool, "parameters": json.loads(tool["parameters"])}
    return {"type": "function", "function": function}


def render(tokenizer, conversation: dict, template: str | None) -> str | None:
    tools = [as_schema(tool) for tool in conversation.get("tools", [])]
    try:
        return tokenizer.apply_chat_template(
            [as_transformers(message) for message in conversation["messages"]],
            tools=tools or None,
            chat_template=template,
            add_generation_prompt=conversation.get("add_generation_prompt", True),
            tokenize=False,
        )
    except Exception as error:
        print(f"refused: {error!r}")
        return None


def main() -> None:
    folder, out = sys.argv[1:]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    templates = []
    for source in TEMPLATES:
        texts = [render(tokenizer, conversation, source) for conversation in CONVERSATIONS]
        rendered = {"source": source, "texts": texts}
        if source is None:
            rendered["ids"] = [tokenizer(text, add_special_tokens=False).input_ids for text in texts]
        templates.append(rendered)
    golden = {
        "transformers": transformers.__version__,
        "conversations": CONVERSATIONS,
        "templates": templates,
    }
    with open(out, "w", encoding="utf-8") as file:
        json.dump(golden, file, ensure_ascii=False, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
