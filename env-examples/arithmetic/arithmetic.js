// One question of mental arithmetic, as an art-host environment in JavaScript.
//
// An instance plays one episode, so the state is a module variable. What `start` and `step` throw
// becomes the error of their result, which fails the episode and is shown to the author.
// Draws come from the task alone, never from Math.random.

const AGENT = "solver";
const OPERATORS = {
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": (a, b) => a * b,
};
// More would leave the integers that JavaScript's numbers hold exactly.
const DIGITS_MAX = 7;

/** The right answer; set by `start`. */
let answer = null;

export const environment = {
  describe() {
    return {
      name: "arithmetic",
      version: "0.1.0",
      summary: "Answer one question of mental arithmetic with an integer.",
      agents: [AGENT],
      splits: [
        { name: "train", tasks: 1000000 },
        { name: "eval", tasks: 1000000 },
      ],
      maxTurns: 2,
      parts: [
        { name: "correct", minimum: 0, maximum: 1 },
        { name: "format", minimum: 0, maximum: 1 },
      ],
    };
  },

  start(task) {
    const { operators, digits } = settings(task.config);
    const draw = generator(task);
    const operator = operators[draw(operators.length)];
    const [a, b] = [draw(10 ** digits), draw(10 ** digits)];
    answer = OPERATORS[operator](a, b);
    return turn({ prompts: [prompt(`What is ${a} ${operator} ${b}?`)] });
  },

  step(actions) {
    if (answer === null) throw "step was called before start";
    if (actions.length !== 1) throw `one agent was asked, and ${actions.length} answered`;
    const said = actions[0].message.content.trim();
    // The last integer counts, so that "It is 42." can be right without the right format.
    const last = said.match(/-?\d+/g)?.pop();
    const correct = last !== undefined && BigInt(last) === BigInt(answer);
    return turn({
      rewards: [reward("correct", correct), reward("format", /^-?\d+$/.test(said))],
      success: correct,
    });
  },
};

export const expert = {
  act(agent) {
    return agent === AGENT && answer !== null ? message("assistant", String(answer)) : null;
  },
};

/** Reads a config; throws what is wrong with it and what is allowed. */
function settings(config) {
  let object;
  try {
    object = JSON.parse(config);
  } catch (error) {
    throw `the config is not JSON: ${error.message}: ${config}`;
  }
  if (typeof object !== "object" || object === null || Array.isArray(object)) {
    throw `the config is not a JSON object: ${config}`;
  }
  const { operators = ["+"], digits = 1, ...unknown } = object;
  for (const key of Object.keys(unknown)) {
    throw `no config key "${key}"; the keys are: digits, operators`;
  }
  const known = Object.keys(OPERATORS);
  const listed = Array.isArray(operators) && operators.length > 0;
  if (!listed || !operators.every((operator) => known.includes(operator))) {
    const allowed = `a list of one or more of: ${known.join(" ")}`;
    throw `config key "operators" cannot be ${JSON.stringify(operators)}; allowed is ${allowed}`;
  }
  if (!Number.isInteger(digits) || digits < 1 || digits > DIGITS_MAX) {
    const value = JSON.stringify(digits);
    throw `config key "digits" cannot be ${value}; allowed are: 1 to ${DIGITS_MAX}`;
  }
  return { operators, digits };
}

/** A function that draws an integer below its argument, by splitmix64 from the task alone. */
function generator(task) {
  let state = 0n;
  const next = () => {
    state = BigInt.asUintN(64, state + 0x9e3779b97f4a7c15n);
    let z = BigInt.asUintN(64, (state ^ (state >> 30n)) * 0xbf58476d1ce4e5b9n);
    z = BigInt.asUintN(64, (z ^ (z >> 27n)) * 0x94d049bb133111ebn);
    return z ^ (z >> 31n);
  };
  // Every field that tells tasks apart moves the state on from where the last one left it.
  const fields = [...task.split].map((letter) => letter.codePointAt(0));
  for (const field of [...fields, task.index, task.seed]) {
    state = BigInt.asUintN(64, next() ^ BigInt(field));
  }
  return (bound) => Number((next() * BigInt(bound)) >> 64n);
}

function turn({ prompts = [], rewards = [], success = null }) {
  return { prompts, rewards, success, metrics: [] };
}

function prompt(content) {
  const messages = [message("user", content)];
  return { agent: AGENT, messages, tools: [], choices: [], maxTokens: null };
}

function message(role, content) {
  return { role, content, toolCalls: [], toolCallId: null, name: null };
}

function reward(part, earned) {
  return { agent: AGENT, part, value: earned ? 1 : 0 };
}
