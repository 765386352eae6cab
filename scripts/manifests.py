"""Checks deploy/kubernetes: each object against its schema, and all of them against each other.

Then each check is checked: mistakes are planted, one by one, and every one must be found.
"""

import copy
import json
import pathlib
import sys

import jsonschema
import kubernetes_validate
import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "deploy" / "kubernetes"
# The oldest release that still gets security fixes, and the newest one that the checker knows.
RELEASES = ["1.34", "1.37"]
GUIDE = "docs/scaling.md"


def read():
    """All objects, each with the file that it stands in."""
    objects = []
    for path in sorted(FOLDER.rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            objects.append((str(path.relative_to(ROOT)), document))
    return objects


def name_of(document):
    return f"{document.get('kind')} {document.get('metadata', {}).get('name')}"


def schema_faults(document):
    """What Kubernetes, or KEDA, would not take."""
    if document.get("apiVersion", "").startswith("keda.sh/"):
        schema = json.loads((FOLDER / "keda" / "scaledobject.schema.json").read_text())
        validator = jsonschema.Draft202012Validator(schema)
        return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]
    faults = []
    for release in RELEASES:
        try:
            kubernetes_validate.validate(document, release, strict=True)
        except kubernetes_validate.ValidationError as error:
            path = ".".join(str(step) for step in error.path)
            faults.append(f"{release}: {path}: {error.message}")
        except kubernetes_validate.SchemaNotFoundError as error:
            faults.append(f"{release}: {error.message}")
    return faults


def pod_faults(deployment):
    """What a pod must have: little power, and bounds."""
    spec = deployment["spec"]["template"]["spec"]
    faults = []
    if spec.get("automountServiceAccountToken") is not False:
        faults.append("its pods are given a key to the cluster")
    if not spec.get("securityContext", {}).get("runAsNonRoot"):
        faults.append("its pods may run as root")
    for container in spec["containers"]:
        power = container.get("securityContext", {})
        if power.get("allowPrivilegeEscalation") is not False or not power.get("readOnlyRootFilesystem"):
            faults.append(f"container {container['name']} has more power than it needs")
        if power.get("capabilities", {}).get("drop") != ["ALL"]:
            faults.append(f"container {container['name']} keeps capabilities")
        resources = container.get("resources", {})
        if not {"cpu", "memory"} <= resources.get("requests", {}).keys():
            faults.append(f"container {container['name']} does not say what it needs")
        if "memory" not in resources.get("limits", {}):
            faults.append(f"container {container['name']} has no bound of memory")
        if ":" not in container["image"] or container["image"].endswith(":latest"):
            faults.append(f"container {container['name']} is of no certain release")
    return faults


def ports_of(deployment):
    containers = deployment["spec"]["template"]["spec"]["containers"]
    return {port["name"] for container in containers for port in container.get("ports", [])}


def referenced(deployment):
    """Secrets and config maps that pods take, by kind and name."""
    spec = deployment["spec"]["template"]["spec"]
    found = []
    for volume in spec.get("volumes", []):
        if "secret" in volume:
            found.append(("Secret", volume["secret"]["secretName"]))
        if "configMap" in volume:
            found.append(("ConfigMap", volume["configMap"]["name"]))
    for container in spec["containers"]:
        for source in container.get("envFrom", []):
            if "secretRef" in source:
                found.append(("Secret", source["secretRef"]["name"]))
            if "configMapRef" in source:
                found.append(("ConfigMap", source["configMapRef"]["name"]))
    return found


def reference_faults(objects, guide):
    """What points at nothing."""
    documents = [document for _, document in objects]
    deployments = [document for document in documents if document.get("kind") == "Deployment"]
    names = {(document.get("kind"), document["metadata"]["name"]) for document in documents}
    faults = []

    def chosen(labels):
        def fits(deployment):
            have = deployment["spec"]["template"]["metadata"]["labels"]
            return all(have.get(key) == value for key, value in labels.items())

        return [deployment for deployment in deployments if labels and fits(deployment)]

    for document in documents:
        who, spec = name_of(document), document.get("spec", {})
        if document.get("kind") == "Service":
            pods = chosen(spec["selector"])
            ports = set().union(*[ports_of(pod) for pod in pods]) if pods else set()
            for port in spec["ports"]:
                if port["targetPort"] not in ports:
                    faults.append(f"{who}: no pod has a port {port['targetPort']}")
        if document.get("kind") == "PodDisruptionBudget" and not chosen(spec["selector"]["matchLabels"]):
            faults.append(f"{who}: it is about no pods")
        if document.get("kind") == "NetworkPolicy":
            pods = chosen(spec["podSelector"].get("matchLabels", {}))
            if not pods:
                faults.append(f"{who}: it is about no pods")
            ports = set().union(*[ports_of(pod) for pod in pods]) if pods else set()
            for rule in spec.get("ingress", []):
                for port in rule.get("ports", []):
                    if port["port"] not in ports:
                        faults.append(f"{who}: no pod has a port {port['port']}")
        if document.get("kind") == "ScaledObject":
            target = spec["scaleTargetRef"]
            scaled = [one for one in deployments if one["metadata"]["name"] == target["name"]]
            if not scaled:
                faults.append(f"{who}: it scales nothing")
            if any("replicas" in one["spec"] for one in scaled):
                faults.append(f"{who}: its Deployment says how many there are, too")
        if document.get("kind") == "Secret":
            faults.append(f"{who}: secrets do not belong here")
        if document.get("kind") == "Deployment":
            account = spec["template"]["spec"].get("serviceAccountName")
            if ("ServiceAccount", account) not in names:
                faults.append(f"{who}: there is no ServiceAccount {account}")
            if spec["selector"]["matchLabels"].items() - spec["template"]["metadata"]["labels"].items():
                faults.append(f"{who}: it does not select its own pods")
            for kind, name in referenced(document):
                # Secrets are made by hand, and the guide says how.
                if kind == "Secret" and f"`{name}`" in guide:
                    continue
                if (kind, name) not in names:
                    faults.append(f"{who}: there is no {kind} {name}, and {GUIDE} tells of none")
    return faults


def faults_of(objects, guide):
    faults = []
    for path, document in objects:
        own = schema_faults(document)
        if not own and document.get("kind") == "Deployment":
            own = pod_faults(document)
        faults += [f"{path}: {name_of(document)}: {fault}" for fault in own]
    # What has the wrong shape is not followed any further.
    return faults or reference_faults(objects, guide)


def find(objects, kind, name):
    return next(document for _, document in objects if name_of(document) == f"{kind} {name}")


def planted():
    """Mistakes: what is wrong, and how it is made."""

    def change(kind, name, *path, value=None):
        def make(objects):
            at = find(objects, kind, name)
            for step in path[:-1]:
                at = at[step]
            if value is None:
                del at[path[-1]]
            else:
                at[path[-1]] = value

        return make

    def secret(objects):
        data = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "stringData": {"k": "v"}}
        objects.append(("planted.yaml", data))

    pod = ("spec", "template", "spec")
    worker, broker = ("Deployment", "siltstone-worker"), ("Deployment", "siltstone-broker")
    return {
        "a number as text": change(*broker, "spec", "replicas", value="1"),
        "an unknown field": change(*worker, *pod, "containers", 0, "imagePolicy", value="Always"),
        "no selector": change(*worker, "spec", "selector"),
        "an old version": change("PodDisruptionBudget", "siltstone-worker", "apiVersion", value="policy/v1beta1"),
        "a service without pods": change("Service", "siltstone-broker", "spec", "selector", value={"app": "other"}),
        "a port of another name": change("Service", "siltstone-broker", "spec", "ports", 0, "targetPort", value="http"),
        "a policy about nobody": change("NetworkPolicy", "siltstone-worker", "spec", "podSelector", value={}),
        "a budget about nobody": change(
            "PodDisruptionBudget", "siltstone-worker", "spec", "selector", "matchLabels", value={"a": "b"}
        ),
        "a root user": change(*worker, *pod, "securityContext", "runAsNonRoot", value=False),
        "capabilities": change(*broker, *pod, "containers", 0, "securityContext", "capabilities"),
        "no bound of memory": change(*worker, *pod, "containers", 0, "resources", "limits"),
        "the latest image": change(*broker, *pod, "containers", 0, "image", value="siltstone:latest"),
        "a key to the cluster": change(*worker, *pod, "automountServiceAccountToken"),
        "an account that is not there": change(*worker, *pod, "serviceAccountName", value="default"),
        "a secret nobody tells of": change(*worker, *pod, "volumes", 0, "secret", "secretName", value="other"),
        "a secret in the repository": secret,
        "two who say how many": change(*worker, "spec", "replicas", value=3),
        "a scaler of nothing": change(
            "ScaledObject", "siltstone-worker", "spec", "scaleTargetRef", "name", value="other"
        ),
        "an unknown field of KEDA's": change("ScaledObject", "siltstone-worker", "spec", "maxReplicas", value=3),
        "a threshold as number": change(
            "ScaledObject", "siltstone-worker", "spec", "triggers", 0, "metadata", "threshold", value=2
        ),
    }


def main():
    objects, guide = read(), (ROOT / GUIDE).read_text()
    faults = faults_of(objects, guide)
    for fault in faults:
        print(fault)
    missed = []
    if not faults:
        for what, make in planted().items():
            damaged = copy.deepcopy(objects)
            make(damaged)
            if not faults_of(damaged, guide):
                missed.append(what)
                print(f"a planted mistake was not found: {what}")
    found = len(planted()) - len(missed)
    print(f"{len(objects)} objects for Kubernetes {' and '.join(RELEASES)}: {len(faults)} faults; ", end="")
    print(f"{found} of {len(planted())} planted mistakes found" if not faults else "no mistakes planted")
    return 1 if faults or missed else 0


if __name__ == "__main__":
    sys.exit(main())
