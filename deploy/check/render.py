"""Renders the chart with each file of values in chart/ci, and checks all rendered objects, those of the overlays too.

usage: render.py OUT          OUT holds NAME.yaml for each overlay. Writes OUT/chart-NAME.yaml for each file of values, and
                              OUT/chart-default.yaml. Every object is checked against the schema of its Kubernetes kind,
                              strictly. refused.yaml has values that the chart must refuse, and expected.yaml parts of
                              objects that values must give. Ends with 1 and a line for each mistake
       render.py CHART FILE   renders a chart, a folder or an archive, with its own values to FILE
"""

import json
import pathlib
import sys

import helm_python as helm
import kubernetes_validate
import yaml

HERE = pathlib.Path(__file__).resolve().parent
CHART = HERE.parent / "chart"
# The releases that the chart's kubeVersion allows, as far as there are schemas.
KUBERNETES = ("1.36", "1.37")
# Kinds that a CustomResourceDefinition describes have no schema in Kubernetes.
FOREIGN = {"ServiceMonitor"}

mistakes = []


def render(chart, values):
    rendered = chart.render(values, name="berth", namespace="kube-system")
    texts = [text for path, text in sorted(rendered.items()) if path.endswith(".yaml") and text.strip()]
    return "\n---\n".join(texts)


class Loader(yaml.SafeLoader):
    """Refuses a key that occurs twice, as the API server does."""


def mapping(loader, node):
    keys = [loader.construct_object(key) for key, _ in node.value]
    for key in keys:
        if keys.count(key) > 1:
            raise yaml.YAMLError(f"the key {key!r} occurs twice{node.start_mark}")
    return loader.construct_mapping(node, deep=True)


Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)


def objects(text):
    return [each for each in yaml.load_all(text, Loader) if each]


def validate(where, text):
    for each in objects(text):
        if each["kind"] in FOREIGN:
            continue
        for release in KUBERNETES:
            try:
                kubernetes_validate.validate(each, release, strict=True)
            except Exception as error:
                mistakes.append(f"{where}: {each['kind']}, Kubernetes {release}: {error}")


def check_selectors(where, text):
    """The API server refuses a workload whose pods its own selector does not match. The other selectors would select nothing."""
    found = objects(text)
    workloads = [each for each in found if each["kind"] in ("Deployment", "StatefulSet")]
    for workload in workloads:
        template = workload["spec"]["template"]
        pods = template["metadata"]["labels"].items()
        selectors = [each["labelSelector"] for each in template["spec"].get("topologySpreadConstraints", [])]
        for each in found:
            spec = each.get("spec", {})
            selectors += [spec[key] for key in ("selector", "podSelector") if key in spec]
        for selector in selectors:
            labels = selector.get("matchLabels", selector)
            if not labels.items() <= pods:
                mistakes.append(f"{where}: the labels of the pods do not have {labels}")


def has(part, value):
    """Whether the value has each field of the part, and a list of the part's length."""
    if isinstance(part, dict):
        return isinstance(value, dict) and all(key in value and has(each, value[key]) for key, each in part.items())
    if isinstance(part, list):
        return isinstance(value, list) and len(part) == len(value) and all(map(has, part, value))
    return part == value


def check_expected(chart):
    for number, case in enumerate(yaml.safe_load((HERE / "expected.yaml").read_text()), 1):
        text = render(chart, case["values"])
        where = f"expected.yaml, case {number}"
        validate(where, text)
        check_selectors(where, text)
        found = [each for each in objects(text) if each["kind"] == case["kind"]]
        if case.get("absent"):
            if found:
                mistakes.append(f"{where}: there is a {case['kind']}")
        elif not any(has(case["part"], each) for each in found):
            mistakes.append(f"{where}: {case['part']} is not in\n{yaml.safe_dump_all(found)}")


def without_labels(value):
    """The object without the labels and the selectors by label, which name the tool that made the object."""
    if isinstance(value, dict):
        return {key: without_labels(each) for key, each in value.items() if key not in ("labels", "matchLabels", "metadata.labels")}
    if isinstance(value, list):
        return [without_labels(each) for each in value]
    return value


def by_identity(text):
    found = {}
    for each in objects(text):
        plain = without_labels(each)
        if plain["kind"] == "ConfigMap":
            plain["data"] = {key: yaml.safe_load(each) for key, each in plain["data"].items()}
        if plain["kind"] == "Deployment":
            plain["spec"]["template"]["spec"]["containers"][0].pop("imagePullPolicy", None)
        found[(plain["kind"], plain["metadata"]["name"])] = plain
    return found


def check_order_of_deletion(where, text):
    """kubectl deletes in the order of the file. The leader loses its rights before its Lease, so that it cannot create the Lease again."""
    kinds = [each["kind"] for each in objects(text)]
    if "Lease" in kinds and kinds.index("Lease") < kinds.index("RoleBinding"):
        mistakes.append(f"{where}: the Lease would be deleted before the RoleBinding")


def compare(left, right):
    """The chart without values and the base of the overlays are the same objects."""
    for key in sorted(left.keys() | right.keys()):
        if left.get(key) != right.get(key):
            mistakes.append(f"{key}: the chart's default says\n{left.get(key)}\nand the base\n{right.get(key)}")


def paths(values, schema, at=""):
    """The places of all values that have a name of their own in the schema."""
    found = set()
    for key, below in schema.get("properties", {}).items():
        place = f"{at}{key}"
        found.add(place)
        inner = values.get(key) if isinstance(values, dict) else None
        found |= paths(inner, below, f"{place}.")
    return found


def compare_values_and_schema():
    """values.yaml shows each value that the schema allows, and no other."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    # Helm itself adds `global`.
    named = paths(values, schema) - {"global"}

    def has(place):
        at = values
        for key in place.split("."):
            if not isinstance(at, dict) or key not in at:
                return False
            at = at[key]
        return True

    for place in sorted(named):
        if not has(place):
            mistakes.append(f"values.yaml does not show {place}, which the schema allows")
    for key in values:
        if key not in named:
            mistakes.append(f"the schema does not know {key} of values.yaml")


def main(out):
    compare_values_and_schema()
    with helm.Chart.load(str(CHART)) as chart:
        files = {"default": {}}
        for path in sorted((CHART / "ci").glob("*-values.yaml")):
            files[path.name.removesuffix("-values.yaml")] = yaml.safe_load(path.read_text())
        for name, values in files.items():
            text = render(chart, values)
            (out / f"chart-{name}.yaml").write_text(text)
        for case in yaml.safe_load((HERE / "refused.yaml").read_text()):
            try:
                chart.validate_schema(case["values"])
                render(chart, case["values"])
            except helm.errors.HelmError as error:
                if case["reason"] not in str(error):
                    mistakes.append(f"values {case['values']}: refused, but {case['reason']!r} is not in {error}")
            else:
                mistakes.append(f"values {case['values']} are not refused")
        check_expected(chart)
    for error in helm.lint(str(CHART))["errors"]:
        mistakes.append(f"lint: {error}")
    for path in sorted(out.glob("*.yaml")):
        validate(path.name, path.read_text())
        check_selectors(path.name, path.read_text())
        # Helm has an order of its own, in which a kind that it does not know, such as a Lease, is the last.
        if not path.name.startswith("chart-"):
            check_order_of_deletion(path.name, path.read_text())
    compare(by_identity((out / "chart-default.yaml").read_text()), by_identity((out / "base.yaml").read_text()))
    for mistake in mistakes:
        print(mistake, file=sys.stderr)
    sys.exit(1 if mistakes else 0)


if len(sys.argv) == 3:
    with helm.Chart.load(sys.argv[1]) as packed:
        pathlib.Path(sys.argv[2]).write_text(render(packed, {}))
else:
    main(pathlib.Path(sys.argv[1]))
