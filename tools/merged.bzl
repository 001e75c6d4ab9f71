"""Libraries and tests whose sources are compiled many at a time.

Most of the time to compile a source goes into the headers and templates that it shares with its neighbours.
"""

# For code that is never hot: what -O2 adds only prolongs the build.
COLD = ["-O1"]

# For tests: what takes time there is the libraries that they call. -Og compiles as fast as -O0, whose copies of inline
# functions the linker would take for the libraries, too.
TESTS = ["-Og"]

def merged_sources(name, srcs, apart = [], at_most = 24, extension = ".cc"):
    """Of .cc files (or others) and headers: files that compile up to at_most .cc files as one, and the headers.

    Neighbours may give helpers the same name if nothing stands behind the unnamed namespace that they are in
    (tools/merge_sources.py). Where the compiler says "redefinition" all the same, rename one, or list a file in apart:
    those are compiled alone.
    """
    together = [src for src in srcs if src.endswith(extension) and src not in apart]
    count = (len(together) + at_most - 1) // at_most
    merged = []
    for i in range(count):
        merged.append("%s_merged_%d%s" % (name, i + 1, extension))
        native.genrule(
            name = "%s_merged_%d" % (name, i + 1),
            srcs = together[len(together) * i // count:len(together) * (i + 1) // count],
            outs = [merged[i]],
            cmd = "$(location //:tools/merge_sources.py) $(SRCS) > $@",
            tools = ["//:tools/merge_sources.py"],
            visibility = ["//visibility:private"],
        )
    return merged + [src for src in srcs if src not in together]

def merged_library(name, srcs, apart = [], at_most = 24, textual_hdrs = [], **kwargs):
    """A cc_library of merged_sources."""
    native.cc_library(
        name = name,
        srcs = merged_sources(name, srcs, apart, at_most),
        textual_hdrs = textual_hdrs + [src for src in srcs if src.endswith(".cc") and src not in apart],
        **kwargs
    )
