"""The tools of a model and what its answers ask of them, validated before anything happens."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from optimizer.errors import CandidateError
from optimizer.llm.briefing import ALL_OF_IT, Briefing, Inspection, What, Without, cut
from optimizer.llm.messages import Block
from optimizer.names import nearest

LONGEST_SCHEDULE = 20_000
"""Characters, as the parser of schedules has it."""
LONGEST_TEXT = 400_000
"""Characters of a candidate of any other kind."""
LONGEST_MESSAGE = 600
"""Characters of what is said about a call that is not valid."""
PROSE = "There is nothing in this sentence that any grammar of candidates would accept."

Rationale = Annotated[str, Field(default="", max_length=4_000, description="Why, in one or two sentences.")]


class Arguments(BaseModel):
    """Arguments of a tool: of exactly these types, and no others."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class EvaluateSchedule(Arguments):
    schedule: str = Field(
        max_length=LONGEST_SCHEDULE, description="The whole schedule, from the untouched nest: `step(...); step(...)`."
    )
    rationale: Rationale = ""


class EvaluateText(Arguments):
    candidate: str = Field(max_length=LONGEST_TEXT, description="The whole text, not a part or a difference.")
    rationale: Rationale = ""


class InspectNest(Arguments):
    what: Literal["dependences", "legal", "nest", "bound"] = Field(
        description="dependences: what must run before what. legal: which steps a loop allows. nest: the loops after "
        "a schedule, and whether it is legal. bound: what limits the speed, and how each loop walks memory."
    )
    of: str = Field(
        default="", max_length=200, description="An array (for dependences) or a loop (for legal); left out, all."
    )
    schedule: str = Field(
        default="", max_length=LONGEST_SCHEDULE, description="After this schedule; left out, of the untouched nest."
    )


class FinishChain(Arguments):
    reason: str = Field(default="", max_length=4_000, description="Why nothing more is worth trying.")


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as the model sees it, and the type of its arguments."""

    name: str
    description: str
    arguments: type[Arguments]

    def schema(self) -> dict[str, Any]:
        """As the Messages API takes it."""
        schema = self.arguments.model_json_schema()
        for part in (schema, *schema["properties"].values()):
            for key in ("title", "description") if part is schema else ("title",):
                part.pop(key, None)
        return {"name": self.name, "description": self.description, "input_schema": schema}

    @property
    def usage(self) -> str:
        """`inspect(what, [of], [schedule])`."""
        fields = self.arguments.model_fields
        named = (name if field.is_required() else f"[{name}]" for name, field in fields.items())
        return f"{self.name}({', '.join(named)})"


EVALUATE_SCHEDULE = Tool(
    "evaluate",
    "Have a schedule judged: is it legal, are its results right, how fast is it. Costs one evaluation.",
    EvaluateSchedule,
)
EVALUATE_TEXT = Tool("evaluate", "Have a candidate judged. Costs one evaluation.", EvaluateText)
INSPECT_NEST = Tool("inspect", "Ask about the nest. Costs no evaluation.", InspectNest)
FINISH = Tool("finish", "End this search.", FinishChain)


@dataclass(frozen=True, slots=True)
class Evaluate:
    """Judge a candidate: a step of the chain."""

    id: str
    text: str
    rationale: str


@dataclass(frozen=True, slots=True)
class Inspect:
    id: str
    inspection: Inspection


@dataclass(frozen=True, slots=True)
class Finish:
    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Invalid:
    """A call that cannot be carried out: what is wrong with it, and what would be right."""

    id: str
    message: str


Call: TypeAlias = Evaluate | Inspect | Finish | Invalid


def read_calls(content: Sequence[Block], briefing: Briefing, without: Without = ALL_OF_IT) -> tuple[Call, ...]:
    """The calls in an answer, in their order; blocks of other types are passed over."""
    tools = {tool.name: tool for tool in briefing.toolset(without)}
    return tuple(_read_call(block, tools, briefing) for block in content if block.get("type") == "tool_use")


def strict_prose(text: str, problem: Any) -> str | None:
    """The candidate that an answer without tool calls is: its only fenced block, or all of it.

    None when there is no such candidate, it is empty, or it cannot be read. All of an answer counts only where
    candidates have a grammar: anywhere else a refusal would pass for one.
    """
    blocks = _fenced_blocks(text)
    if blocks is None or len(blocks) > 1:
        return None
    if not blocks and _reads_anything(problem):
        return None
    found = blocks[0] if blocks else text
    try:
        candidate = problem.parse(found)
    except CandidateError:
        return None
    return found if candidate.text.strip() else None


def _read_call(block: Block, tools: Mapping[str, Tool], briefing: Briefing) -> Call:
    identity, name, given = str(block.get("id", "")), block.get("name"), block.get("input")
    tool = tools.get(name) if isinstance(name, str) else None
    if tool is None:
        known = ", ".join(known.usage for known in tools.values())
        near = nearest(name[:100], tools) if isinstance(name, str) else ""
        return Invalid(identity, f"there is no tool {cut(str(name), 100)}{near}; the tools are {known}")
    if not isinstance(given, Mapping):
        return Invalid(identity, f"the input of {name} must be a JSON object; write {tool.usage}")
    # Models write null for what they leave out.
    named = {str(key): value for key, value in cast("Mapping[Any, Any]", given).items() if value is not None}
    try:
        arguments = tool.arguments.model_validate(named)
    except ValidationError as error:
        return Invalid(identity, cut(f"{_faults(error, tool)}; write {tool.usage}", LONGEST_MESSAGE))
    match arguments:
        case InspectNest():
            return Inspect(identity, Inspection(What(arguments.what), arguments.of, arguments.schedule))
        case FinishChain():
            return Finish(identity, arguments.reason)
        case _:
            return Evaluate(identity, briefing.candidate_of(named), str(named.get("rationale", "")))


def _faults(error: ValidationError, tool: Tool) -> str:
    """What is wrong with the arguments, each fault once."""
    found: list[str] = []
    for fault in error.errors(include_url=False, include_context=False, include_input=False)[:4]:
        field = cut(".".join(map(str, fault["loc"])), 100)
        if fault["type"] == "extra_forbidden":
            found.append(f"{tool.name} takes no {field}{nearest(field, tool.arguments.model_fields)}")
        elif fault["type"] == "missing":
            found.append(f"{tool.name} needs {field}")
        else:
            found.append(f"{field}: {fault['msg'][:1].lower()}{fault['msg'][1:]}")
    return "; ".join(dict.fromkeys(found))


def _fenced_blocks(text: str) -> list[str] | None:
    """What stands between fences; None when the last one is not closed."""
    blocks: list[str] = []
    inside: list[str] | None = None
    fence = ""
    for line in text.splitlines():
        opening = re.match(r" {0,3}(`{3,}|~{3,})", line)
        if inside is None:
            if opening:
                inside, fence = [], opening.group(1)
        elif opening and line.strip() == opening.group(1) and opening.group(1).startswith(fence):
            blocks.append("\n".join(inside))
            inside = None
        else:
            inside.append(line)
    return blocks if inside is None else None


def _reads_anything(problem: Any) -> bool:
    """Whether any text at all is a candidate."""
    try:
        problem.parse(PROSE)
    except CandidateError:
        return False
    return True
