"""Libraries whose sources are compiled several at a time."""

# For code that is never hot: what -O2 adds only prolongs the build.
COLD = ["-O1"]

def merged_library(name, srcs, apart = [], at_most = 8, textual_hdrs = [], **kwargs):
    """A cc_library that compiles up to at_most of its sources as one.

    Most of the time to compile a source goes into the headers and templates that it shares with
    its neighbours. Sources that share names with others are listed in apart and compiled alone.
    """
    together = [src for src in srcs if src.endswith(".cc") and src not in apart]
    merged = []
    count = (len(together) + at_most - 1) // at_most
    for i in range(count):
        merged.append("%s_merged_%d.cc" % (name, i + 1))
        native.genrule(
            name = "%s_merged_%d" % (name, i + 1),
            srcs = together[len(together) * i // count:len(together) * (i + 1) // count],
            outs = [merged[i]],
            cmd = "printf '#include \"%s\"\\n' $(SRCS) > $@",
            visibility = ["//visibility:private"],
        )
    native.cc_library(
        name = name,
        srcs = merged + [src for src in srcs if src not in together],
        textual_hdrs = textual_hdrs + together,
        **kwargs
    )
