"""Libraries that are linked, but whose headers, includes and macros nobody sees."""

def _link_only_impl(ctx):
    contexts = [dep[CcInfo].linking_context for dep in ctx.attr.deps]
    return [CcInfo(linking_context = cc_common.merge_cc_infos(
        cc_infos = [CcInfo(linking_context = context) for context in contexts],
    ).linking_context)]

link_only = rule(
    doc = """A dependency that changes no command by which its users are compiled.

What needs the CUDA toolkit stands behind one, so that all else is compiled alike with --config=cuda and without.
""",
    implementation = _link_only_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
    provides = [CcInfo],
)
