"""The program as a wheel, for pip."""

def _wheel_impl(ctx):
    folder = ctx.actions.declare_directory(ctx.label.name)
    arguments = ctx.actions.args()
    arguments.add_all([folder], expand_directories = False)
    arguments.add_all([ctx.file.program, ctx.file.version, ctx.executable.licences])
    arguments.add_all("--cuda", ctx.files.cuda_headers)
    arguments.add_all("--files", ctx.files.srcs)
    ctx.actions.run(
        executable = ctx.executable._make_wheel,
        arguments = [arguments],
        inputs = ctx.files.srcs + ctx.files.cuda_headers + [ctx.file.program, ctx.file.version],
        outputs = [folder],
        tools = [ctx.executable.licences],
        mnemonic = "Wheel",
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([folder]), runfiles = ctx.runfiles([folder]))]

wheel = rule(
    doc = "A folder with one wheel, whose name says version and platform (tools/make_wheel.py).",
    implementation = _wheel_impl,
    attrs = {
        "cuda_headers": attr.label_list(allow_files = True),
        "licences": attr.label(allow_single_file = True, cfg = "exec", executable = True),
        "program": attr.label(allow_single_file = True),
        "srcs": attr.label_list(allow_files = True),
        "version": attr.label(allow_single_file = True),
        "_make_wheel": attr.label(
            allow_single_file = True,
            cfg = "exec",
            default = "//:tools/make_wheel.py",
            executable = True,
        ),
    },
)
