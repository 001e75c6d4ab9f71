"""What Bazel would run to make targets."""

import json
import subprocess


def bazel(*arguments):
    return subprocess.run(["bazel", *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def read_actions(options, targets, kinds):
    """The actions of those kinds ("CppCompile|CppLink") that make the targets, with paths instead of numbers."""
    query = f'mnemonic("{kinds}", deps({" + ".join(targets)}))'
    graph = json.loads(bazel("aquery", *options, "--output=jsonproto", query))
    fragments = {fragment["id"]: fragment for fragment in graph["pathFragments"]}

    def path(number):
        fragment = fragments[number]
        parent = fragment.get("parentId")
        return (path(parent) + "/" if parent else "") + fragment["label"]

    artifacts = {artifact["id"]: path(artifact["pathFragmentId"]) for artifact in graph["artifacts"]}
    sets = {each["id"]: each for each in graph["depSetOfFiles"]}
    labels = {target["id"]: target["label"] for target in graph["targets"]}

    def files(number, seen):
        if number in seen:
            return
        seen.add(number)
        yield from (artifacts[a] for a in sets[number].get("directArtifactIds", []))
        for inner in sets[number].get("transitiveDepSetIds", []):
            yield from files(inner, seen)

    for action in graph["actions"]:
        inputs = set()
        for number in action.get("inputDepSetIds", []):
            inputs.update(files(number, set()))
        yield {"mnemonic": action["mnemonic"], "arguments": action.get("arguments", []), "inputs": inputs,
               "outputs": [artifacts[o] for o in action["outputIds"]], "label": labels[action["targetId"]]}
