"""Renders chats with a chat template, as transformers' apply_chat_template does. The program runs it (chat_renderer.cc).

Reads JSON lines and answers each with a JSON line. The first line sets the template and the limits:

    {"template", "variables": {"bos_token", …}, "loss_on", "text_limit", "seconds", "memory"}  →  {"ready": true}

Each further line is a chat; the turns of its first `prompt` messages carry no loss. The answer is the rendered text in
pieces, with whether each piece carries loss:

    {"messages": [{"role", "content"}, …], "prompt": 0}  →  {"pieces": [[text, true], …]}

"variables" are further variables of the template for this chat; with "shows_system" its text must hold the first turn. With "answered": true the text ends with the beginning of the assistant's next turn, and nothing in it carries loss.

A failure is answered by {"error": what the template says} or {"refused": what this script says}.
"""

import datetime
import json
import os
import re
import resource
import signal
import sys

# BEGIN and END surround the text that a template marks with {% generation %}; MARKER replaces the
# words of a turn. All three are noncharacters of Unicode, which texts do not hold.
BEGIN, END, MARKER = "\ufdd0", "\ufdd1", "\ufdd2"


class Refused(Exception):
    """The chat cannot be used; the message says why."""


def answer(value):
    sys.stdout.buffer.write(json.dumps(value).encode() + b"\n")
    sys.stdout.buffer.flush()


def limit(resource_kind, soft):
    """Sets a soft limit, but not above the hard limit that the process already has."""
    hard = resource.getrlimit(resource_kind)[1]
    resource.setrlimit(resource_kind, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def limit_processor(seconds):
    """Makes SIGXCPU end the process after this many more seconds of processor time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + 1 + seconds)


def now():
    """SOURCE_DATE_EPOCH, or else the current time. Called once: all chats have one date. ValueError: no valid time."""
    # https://reproducible-builds.org/specs/source-date-epoch
    fixed = os.environ.get("SOURCE_DATE_EPOCH")
    if not fixed:
        return datetime.datetime.now()
    try:
        return datetime.datetime.fromtimestamp(int(fixed), datetime.timezone.utc)
    except (ValueError, OverflowError, OSError):
        raise ValueError(fixed) from None


def make_environment(jinja2, marks, begun):
    """A sandbox with the functions that transformers adds. `marks`: "on" says whether generation blocks are marked, "used"
    whether the template has any. `begun`: the time that templates receive."""

    class Generation(jinja2.ext.Extension):
        tags = {"generation"}

        def parse(self, parser):
            marks["used"] = True
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("mark"), [], [], body).set_lineno(line)

        def mark(self, caller):
            return BEGIN + caller() + END if marks["on"] else caller()

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = begun.strftime
    return environment


class Renderer:
    def __init__(self, jinja2, setup, begun):
        self.marks = {"on": False, "used": False}
        self.template = make_environment(jinja2, self.marks, begun).from_string(setup["template"])
        self.variables = setup["variables"]
        self.assistant_only = setup["loss_on"] == "assistant"
        self.limit = setup["text_limit"]
        self.of_chat = {}  # variables of the chat that is rendered

    def render(self, messages, prompted=False):
        """Renders the messages. `prompted`: appends the beginning of the assistant's next turn."""
        parts, size = [], 0
        variables = {**self.variables, **self.of_chat}
        for part in self.template.generate(messages=messages, tools=None, documents=None,
                                           add_generation_prompt=prompted, **variables):
            size += len(part)
            if size > self.limit:
                raise Refused(f"its text is longer than {self.limit} characters")
            parts.append(part)
        return "".join(parts)

    def asked(self, chat):
        self.of_chat = chat.get("variables", {})
        if chat.get("answered"):
            return [[self.render(chat["messages"], prompted=True), False]]
        return self.pieces(chat["messages"], chat["prompt"], chat.get("shows_system", False))

    def pieces(self, messages, prompt, shows_system):
        text = self.render(messages)
        if not text:
            raise Refused("the template writes nothing for it")
        for k, message in enumerate(messages):
            required = message["role"] == "developer" or (k == 0 and shows_system)
            if required and message["content"].strip() not in text:
                raise Refused(f"the template leaves out the words of role {message['role']}; put them into a turn of the "
                              "user, or give another template")
        if not self.assistant_only:
            return [[text, True]]
        if not any(message["role"] == "assistant" for message in messages[prompt:]):
            raise Refused("has no turn of the assistant, so nothing in it carries loss")
        if self.marks["used"]:
            spans = self.marked_spans(text, messages, prompt)
        else:
            spans = [self.span_of_turn(text, messages, k) for k in range(prompt, len(messages))
                     if messages[k]["role"] == "assistant"]
        return cut(text, spans)

    def marked_spans(self, text, messages, prompt):
        marked = self.render_marked(messages)
        if marked.replace(BEGIN, "").replace(END, "") != text:
            raise Refused("what the template does with text between {% generation %} and {% endgeneration %} "
                          "depends on the text; mark the rendered words alone")
        spans, at, begin = [], 0, None
        for part in re.split(f"([{BEGIN}{END}])", marked):
            if part == BEGIN:
                begin = at
            elif part == END:
                spans.append((begin, at))
            else:
                at += len(part)
        # The prompt's turns come first; they carry no loss.
        return spans[self.render_marked(messages[:prompt]).count(BEGIN) if prompt else 0:]

    def render_marked(self, messages):
        require_without_marks(messages)
        self.marks["on"] = True
        try:
            return self.render(messages)
        finally:
            self.marks["on"] = False

    def span_of_turn(self, text, messages, k):
        """The position in the text of the words of an assistant's turn, with the end token after them. Usually this is what
        the turn adds to the chat before it. If later turns change how the template writes this turn, a marker is used."""
        before = self.render(messages[:k], prompted=True) if k > 0 else None  # templates may read messages[0]
        if before is not None and text.startswith(before):
            through = text if k + 1 == len(messages) else self.render(messages[:k + 1])
            for end in self.ends(through):
                if end.startswith(before) and text.startswith(end):
                    return without_line_end(text, len(before), len(end), messages[k]["content"].strip())
        span = self.span_around_marker(text, messages, k, before)
        if span is None:
            raise Refused(f"messages[{k}]: the template leaves out this turn, or writes its words more than once, when more "
                          "turns follow, so that it cannot be told apart; let the chat end with it, or mark the assistant's "
                          "words in the template with {% generation %}")
        return span

    def ends(self, rendered):
        """The rendering, and the same without a final end token: some templates (Phi 3) only write it at the end of a chat."""
        eos = self.variables.get("eos_token")
        return [rendered, rendered[:-len(eos)]] if eos and rendered.endswith(eos) else [rendered]

    def span_around_marker(self, text, messages, k, before):
        """Finds a turn's words by rendering a marker in their place. A template may change the words depending on later
        turns (Qwen 3 removes thoughts from earlier turns), but usually not the text around them. None: it does."""
        require_without_marks(messages)
        marked = messages[:k] + [{**messages[k], "content": MARKER}] + messages[k + 1:]
        around, alone = self.render(marked).split(MARKER), self.render(marked[:k + 1]).split(MARKER)
        if len(around) != 2 or len(alone) != 2:
            return None
        head, tail = around
        if before is not None and text.startswith(before) and head.startswith(before):
            begin = len(before)
        elif text.startswith(head):
            begin = len(head.rstrip(" "))  # a space before the words belongs to their first token
        else:
            return None
        end = len(text) - len(tail)
        if begin > end or not text.endswith(tail):
            return None
        for closing in self.ends(alone[1]):
            if tail.startswith(closing):
                return begin, end + (len(closing.rstrip()) or len(closing))
        return None


def require_without_marks(messages):
    if any(mark in message["content"] for message in messages for mark in (BEGIN, END, MARKER)):
        raise Refused("holds U+FDD0, U+FDD1 or U+FDD2, which are no characters; remove them")


def without_line_end(text, begin, end, content):
    """Removes white space after the end token, which belongs to the next turn. Without an end token, white space ends the
    words and is kept."""
    short = text[begin:end].rstrip()
    ended = short and not (content and short.endswith(content))
    return (begin, begin + len(short)) if ended else (begin, end)


def cut(text, spans):
    pieces, at = [], 0
    for begin, end in spans:
        pieces += [[text[at:begin], False], [text[begin:end], True]]
        at = end
    return [piece for piece in [*pieces, [text[at:], False]] if piece[0]]


def answer_to(make):
    """Returns the result of make(), or an answer that describes its failure."""
    try:
        return make()
    except Refused as refused:
        return {"refused": str(refused)}
    except MemoryError:
        return {"refused": "rendering it takes too much memory"}
    except Exception as error:  # templates can raise anything
        words = str(error) or type(error).__name__
        line = getattr(error, "lineno", None)
        return {"error": words if line is None else f"line {line}: {words}"}


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        import jinja2
        import jinja2.ext
        import jinja2.sandbox
    except ImportError:
        answer({"missing": "jinja2"})
        return
    requests = sys.stdin.buffer
    setup = json.loads(requests.readline())
    try:
        begun = now()
    except ValueError as bad:
        answer({"bad_date": str(bad)})
        return
    limit(resource.RLIMIT_AS, setup["memory"])
    made = []

    def prepare():
        made.append(Renderer(jinja2, setup, begun))
        return {"ready": True}

    limit_processor(setup["seconds"])
    answer(answer_to(prepare))
    for line in requests:
        limit_processor(setup["seconds"])
        chat = json.loads(line)
        answer(answer_to(lambda: {"pieces": made[0].asked(chat)}))


main()
