"""Libraries and tests whose sources are compiled several at a time."""

# For code that is never hot: what -O2 adds only prolongs the build.
COLD = ["-O1"]

# For tests: it compiles as fast as -O0, whose copies of inline functions would slow down the libraries too.
UNOPTIMIZED = ["-Og"]

# A file as it is.
_INCLUDE = "printf '#include \"%s\"\\n' $$file"

# A file whose unnamed namespace has a name of its own, so that its helpers meet none of its neighbours'.
_SEPARATE = " ".join([
    "name=$$(basename $$file .cc);",
    "printf '#line 1 \"%s\"\\n' $$file;",
    "sed \"s|^namespace {$$|namespace $$name {|; s|^}  // namespace$$|}  // namespace $$name|\" $$file",
])

def _merge(name, srcs, at_most, command):
    """Files of up to at_most of the sources each."""
    merged = []
    count = (len(srcs) + at_most - 1) // at_most
    for i in range(count):
        merged.append("%s_merged_%d.cc" % (name, i + 1))
        native.genrule(
            name = "%s_merged_%d" % (name, i + 1),
            srcs = srcs[len(srcs) * i // count:len(srcs) * (i + 1) // count],
            outs = [merged[i]],
            cmd = "for file in $(SRCS); do %s; done > $@" % command,
            visibility = ["//visibility:private"],
        )
    return merged

def merged_library(name, srcs, apart = [], at_most = 8, textual_hdrs = [], **kwargs):
    """A cc_library that compiles up to at_most of its sources as one.

    Most of the time to compile a source goes into the headers and templates that it shares with
    its neighbours. Sources that share names with others are listed in apart and compiled alone.
    """
    together = [src for src in srcs if src.endswith(".cc") and src not in apart]
    native.cc_library(
        name = name,
        srcs = _merge(name, together, at_most, _INCLUDE) + [src for src in srcs if src not in together],
        textual_hdrs = textual_hdrs + together,
        **kwargs
    )

def merged_test_sources(name, srcs, apart = [], at_most = 16):
    """Sources of a test program: up to at_most of *_test.cc are compiled as one.

    In each, what stands in its one unnamed namespace is its own. Those that have something behind it
    that uses what is within are listed in apart.
    """
    together = [src for src in srcs if src not in apart]
    return _merge(name, together, at_most, _SEPARATE) + apart
