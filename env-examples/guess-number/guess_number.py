"""Guess a number from hints, as an art-host environment in Python.

An instance plays one episode, so the state is a global. All that is random is drawn from the task.
"""

import functools
import json
import random
import re
import traceback
from dataclasses import dataclass

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import types

AGENT = "guesser"
# The config keys, each with its default and the least and most that it may be.
SETTINGS = {"low": (1, -(10**9), 10**9), "high": (20, -(10**9), 10**9), "guesses": (6, 1, 32)}

INTEGER = re.compile(r"-?[0-9]{1,20}")


@dataclass
class Episode:
    """A game in progress."""

    number: int
    """The number to guess."""
    least: int
    """The least that the hints leave possible."""
    most: int
    """The most that the hints leave possible."""
    guesses: int
    """How many guesses are allowed."""
    used: int = 0
    """How many guesses have been made."""
    bare: int = 0
    """How many of them were an integer and nothing else."""


episode: Episode | None = None


def reported(function):
    """Makes an exception the error of the result, so that the author sees where it was raised."""

    @functools.wraps(function)
    def call(*arguments):
        try:
            return function(*arguments)
        except Err:
            raise
        except Exception as error:
            raise Err(traceback.format_exc()) from error

    return call


class Environment(exports.Environment):
    def describe(self):
        return types.Description(
            name="guess-number",
            version="0.1.0",
            summary="Find a hidden number by guessing; each guess is answered by higher or lower.",
            agents=[AGENT],
            splits=[types.Split("train", 1_000_000), types.Split("eval", 1_000_000)],
            # The first prompt, and an answer to each guess.
            max_turns=SETTINGS["guesses"][2] + 1,
            parts=[types.Part("found", 0.0, 1.0), types.Part("format", 0.0, 1.0)],
        )

    @reported
    def start(self, task):
        global episode
        low, high, guesses = settings(task.config)
        number = random.Random(f"{task.split}/{task.index}/{task.seed}").randint(low, high)
        episode = Episode(number, low, high, guesses)
        return ask(
            f"Guess my number from {low} to {high}. You have {guesses} guesses. "
            "Answer with the number alone."
        )

    @reported
    def step(self, actions):
        if episode is None:
            raise Err("step was called before start")
        if len(actions) != 1:
            raise Err(f"one agent was asked, and {len(actions)} answered")
        return answer(episode, actions[0].message.content)


class Expert(exports.Expert):
    def act(self, agent):
        """Halves what the hints leave possible."""
        if episode is None or agent != AGENT:
            return None
        return message(types.Role.ASSISTANT, str((episode.least + episode.most) // 2))


def settings(config):
    """Reads a config, a JSON object as text."""
    try:
        given = json.loads(config)
    except ValueError as error:
        raise Err(f"the config is not JSON: {error}: {config}") from error
    if not isinstance(given, dict):
        raise Err(f"the config is not a JSON object: {config}")
    for key in given:
        if key not in SETTINGS:
            raise Err(f'no config key "{key}"; the keys are: {", ".join(SETTINGS)}')
    values = []
    for key, (default, least, most) in SETTINGS.items():
        value = given.get(key, default)
        if type(value) is not int or not least <= value <= most:
            shown = json.dumps(value)
            raise Err(f'config key "{key}" cannot be {shown}; allowed are: {least} to {most}')
        values.append(value)
    low, high, _ = values
    if low > high:
        raise Err(f'config key "low" cannot be {low}, which is more than "high", {high}')
    return values


def answer(episode, content):
    """Judges a guess: hints and asks again, or ends the episode."""
    episode.used += 1
    integers = INTEGER.findall(content)
    episode.bare += integers == [content.strip()]
    # The last integer counts, so that "Is it 12?" is a guess, though not a bare one.
    guess = int(integers[-1]) if integers else None
    found = guess == episode.number
    if found or episode.used == episode.guesses:
        return over(episode, found)
    if guess is None:
        return ask("That is not a number.")
    if guess < episode.number:
        episode.least = max(episode.least, guess + 1)
        return ask("Higher.")
    episode.most = min(episode.most, guess - 1)
    return ask("Lower.")


def ask(content):
    messages = [message(types.Role.USER, content)]
    prompt = types.Prompt(AGENT, messages, tools=[], choices=[], max_tokens=None)
    return types.Turn([prompt], rewards=[], success=None, metrics=[])


def over(episode, found):
    rewards = [
        types.Reward(AGENT, "found", float(found)),
        types.Reward(AGENT, "format", episode.bare / episode.used),
    ]
    metrics = [types.Metric("guesses", float(episode.used))]
    return types.Turn(prompts=[], rewards=rewards, success=found, metrics=metrics)


def message(role, content):
    return types.Message(role, content, tool_calls=[], tool_call_id=None, name=None)
