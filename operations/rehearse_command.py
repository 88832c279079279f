"""`granary rehearse`: a new prompt or model on stored articles, old against new, before a redo."""

import argparse
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from operations.rehearsal import Plan, Rehearsal, Rehearsed
    from orchestration.settings import Settings
    from resources.chat import ChatResource

MOST_ARTICLES = 200
WIDEST = 160


def add_to(subparsers: Any) -> None:
    """Makes `rehearse` a subcommand."""
    parser = subparsers.add_parser(
        "rehearse", help="a new prompt on stored articles, old against new", description=__doc__
    )
    parser.add_argument("file", type=Path, help="the prompt, such as assets/economy_news/prompts/summary.md")
    parser.add_argument(
        "--kind", help="SUMMARY, TERM_CARDS, INSIGHT, QUIZ_CONTENT or QUIZ_TERM; else by the file's name"
    )
    parser.add_argument(
        "--articles", type=_articles, default=20, help=f"1 to {MOST_ARTICLES}; 20 if not given"
    )
    parser.add_argument("--model", help="another model than OPENAI_MODEL")
    parser.add_argument("--yes", action="store_true", help="asks without confirmation")
    parser.add_argument("--output", type=Path, metavar="FILE.md", help="writes it as Markdown too")
    parser.set_defaults(func=rehearse)


def rehearse(arguments: argparse.Namespace) -> int:
    """Says what it costs, asks, and prints old against new; nothing of the pipeline is written.

    After Ctrl-C, or where the cap or the provider ends it, what was answered is printed all the same.
    """
    from operations.command_line import NOTHING_FOUND
    from operations.rehearsal import CannotRehearse, Rehearsal, kind_of, read_rehearsed
    from operations.rehearsal_report import plan_lines
    from operations.surroundings import database, settings_now

    settings = settings_now()
    kind = kind_of(arguments.file, arguments.kind)
    prompt = read_rehearsed(kind, arguments.file)
    _check_output(arguments.output, arguments.file)
    if not settings.ai_enabled:
        raise CannotRehearse("AI_ENABLED is false, so no model is asked: set it to true to rehearse")
    chat = chat_of(settings, arguments.model)
    with database() as connection:
        rehearsal = Rehearsal(connection, kind, prompt, chat, settings.daily_spending_cap_usd)
        plan = rehearsal.plan(arguments.articles)
        if not plan.stored:
            print(f"no stored article has a result of {kind.job_type} to compare with", file=sys.stderr)
            return NOTHING_FOUND
        lines = plan_lines(plan, str(arguments.file))
        if chat.model != settings.openai_model:
            lines.append("as OPENAI_MODEL it would outdate the results of all kinds: see `granary quote`")
        is_read = _say("\n".join(lines))
        has_place = is_read or arguments.output is not None
        if not (has_place if arguments.yes else is_read and _confirmed()):
            _say("nothing was asked", sys.stderr)
            return NOTHING_FOUND
        return _ask_and_tell(rehearsal, plan, arguments)


def chat_of(settings: "Settings", model: str | None) -> "ChatResource":
    """The client that runs ask with, but for the model. Raises CannotRehearse without a key."""
    from operations.rehearsal import CannotRehearse
    from resources.chat import ChatResource

    if not os.environ.get("OPENAI_API_KEY"):
        raise CannotRehearse(
            "OPENAI_API_KEY is not set: set it, or load the local stack's with `. .local/env`"
        )
    return ChatResource(
        model=model or settings.openai_model,
        base_url=settings.openai_base_url,
        timeout_ms=settings.openai_timeout_ms,
        max_output_tokens=settings.openai_max_output_tokens,
        temperature=settings.openai_temperature,
        model_prices={name: price.model_dump(mode="json") for name, price in settings.model_prices.items()},
    )


def _ask_and_tell(rehearsal: "Rehearsal", plan: "Plan", arguments: argparse.Namespace) -> int:
    """Whatever ends the asking, a lost database too, what was answered is told."""
    from operations.command_line import DONE, INTERRUPTED, NOT_POSSIBLE

    answered: list[Rehearsed] = []
    is_stopped: Callable[[], bool] = bool
    try:
        with _until_interrupted() as is_stopped:
            for one in rehearsal.ask(plan.stored, is_stopped):
                answered.append(one)
                with suppress(OSError):  # a full disk is no reason to leave what is under way
                    _say(f"{len(answered)} of {len(plan.stored)} answered", sys.stderr)
    finally:
        place = {id(one): number for number, one in enumerate(plan.stored)}
        answered.sort(key=lambda one: place[id(one.stored)])
        ended = rehearsal.stopped_by or ("it was interrupted" if len(answered) < len(plan.stored) else None)
        _tell(rehearsal, plan, answered, ended, arguments)
    if rehearsal.stopped_by is not None:
        _say(f"stopped: {rehearsal.stopped_by}", sys.stderr)
        return NOT_POSSIBLE
    return INTERRUPTED if is_stopped() else DONE


def _tell(
    rehearsal: "Rehearsal",
    plan: "Plan",
    answered: Sequence["Rehearsed"],
    ended: str | None,
    arguments: argparse.Namespace,
) -> None:
    """The file comes first, since a reader of stdout may leave; where it fails stdout has the answers."""
    from operations.rehearsal import CannotRehearse
    from operations.rehearsal_report import article_lines, markdown, summary_lines

    width = min(shutil.get_terminal_size((120, 24)).columns, WIDEST)
    redone = [] if rehearsal.connection.broken else rehearsal.redo(plan, answered)
    failure = None
    if arguments.output is not None:
        told = markdown(plan, str(arguments.file), answered, redone, ended)
        try:
            arguments.output.write_text(told, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            failure = error.strerror
    lines = [line for number, one in enumerate(answered, 1) for line in article_lines(number, one, width)]
    _say("\n".join(["", *lines, *summary_lines(plan, answered, redone)]))
    if failure is not None:
        raise CannotRehearse(f"--output: {arguments.output} could not be written ({failure})")


def _say(text: str, to: TextIO | None = None) -> bool:
    """Whether somebody still reads it, on stdout if not told otherwise.

    A reader who has left (`| head`) must end neither the asking that is paid for nor what it leaves behind.
    """
    stream = to or sys.stdout
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        with open(os.devnull, "wb") as nobody, suppress(OSError):
            os.dup2(nobody.fileno(), stream.fileno())  # else what is left over fails again at exit
        return False
    return True


@contextmanager
def _until_interrupted() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed; a second one leaves at once, and what is under way stays reserved."""
    pressed = threading.Event()

    def stop(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, before)
        pressed.set()
        _say("stopping: what was asked is taken in; Ctrl-C again leaves it", sys.stderr)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def _confirmed() -> bool:
    from operations.rehearsal import CannotRehearse

    if not sys.stdin.isatty():
        raise CannotRehearse("nobody can be asked whether to pay for it: confirm with --yes")
    try:
        return _say("Ask? [y/N]") and input().strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _check_output(output: Path | None, prompt_file: Path) -> None:
    """Raises CannotRehearse where the answers that are paid for could not be written."""
    from operations.rehearsal import CannotRehearse

    if output is None:
        return
    if output.resolve() == prompt_file.resolve():
        raise CannotRehearse("--output names the prompt itself: choose another file")
    if output.resolve().parent.name == "prompts":
        raise CannotRehearse("--output: a folder of prompts holds prompts alone: choose another folder")
    place = output if output.exists() else output.absolute().parent
    if output.is_dir() or not os.access(place, os.W_OK):
        raise CannotRehearse(f"--output: {output} cannot be written: choose another file")
    if output.exists() and not _is_report(output):
        raise CannotRehearse(f"--output: {output} is there and no report of a rehearsal: choose another file")


def _is_report(file: Path) -> bool:
    from operations.rehearsal_report import HEADING

    if not file.is_file() or not os.access(file, os.R_OK):
        return False
    with file.open("rb") as opened:
        return opened.read(len(HEADING)) == HEADING.encode()


def _articles(text: str) -> int:
    count = int(text) if text.isdecimal() else 0
    if not 1 <= count <= MOST_ARTICLES:
        raise argparse.ArgumentTypeError(f"must be between 1 and {MOST_ARTICLES}")
    return count
