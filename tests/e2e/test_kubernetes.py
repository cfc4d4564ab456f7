"""The recipes of deploy/kubernetes: rendered by kubectl, and acted out by runc in containers that have exactly the namespaces,
users, capabilities, mounts and read-only roots that the manifests give. What a cluster adds to that was not run."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from drdotnet import ROOT
from patient import FRAMEWORKS, Patient

SIDE_BY_SIDE = True

BUILD = Path(os.environ.get("DRDOTNET", ROOT / "build" / "drdotnet")).parent
RECIPES = ROOT / "deploy" / "kubernetes"
FX = FRAMEWORKS[-1]
SECONDS = 120
SYS_RESOURCE = 24  # a machine that runs the tests may have given this one up for good


def have(capability):
    return int(re.search(r"CapBnd:\s+(\w+)", Path("/proc/self/status").read_text())[1], 16) >> capability & 1


def render(recipe):
    """kind/name -> object, as an API server would be given it."""
    yaml = subprocess.run(["kubectl", "kustomize", RECIPES / recipe], capture_output=True, check=True).stdout
    # An offline command that reads what it is given as the API's types, and knows JSON.
    text = subprocess.run(["kubectl", "annotate", "--local", "-f", "-", "read=yes", "-o", "json"], input=yaml,
                          capture_output=True, check=True).stdout.decode()
    found, at, decoder = {}, 0, json.JSONDecoder()
    while text[at:].strip():
        one, end = decoder.raw_decode(text, at + len(text[at:]) - len(text[at:].lstrip()))
        found[f"{one['kind']}/{one['metadata']['name']}"] = one
        at = end
    return found


def the_doctor(pod):
    return next(c for c in pod["containers"] if c["name"] == "drdotnet")


@unittest.skipIf(os.geteuid() != 0, "containers need root")
class Recipes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="kubernetes-")))
        # The image's content in a build folder of our own: another test makes one too.
        (cls.folder / "build").mkdir()
        for name in ("drdotnet", "drdotnet-dachost", "libdrdotnet-agent.so"):
            shutil.copy(BUILD / name, cls.folder / "build")
        subprocess.run([ROOT / "deploy" / "image", cls.folder / "build", "-"], check=True, capture_output=True)
        cls.root = cls.folder / "build" / "image"

    def run_in(self, pod, volumes, *words):
        """One command in a container of the pod, as its manifest gives it. volumes: folder of the node by name."""
        container = the_doctor(pod)
        rights = container["securityContext"]
        added = [f"CAP_{name}" for name in rights["capabilities"].get("add", [])]
        self.assertEqual(rights["capabilities"]["drop"], ["ALL"])
        self.assertFalse(rights["allowPrivilegeEscalation"])
        if not have(SYS_RESOURCE):
            added = [name for name in added if name != "CAP_SYS_RESOURCE"]
        mounts = [{"destination": "/proc", "type": "proc", "source": "proc"},
                  {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
                  {"destination": "/sys", "type": "bind", "source": "/sys", "options": ["rbind", "ro"]}]
        mounts += [{"destination": m["mountPath"], "type": "bind", "source": str(volumes[m["name"]]),
                    "options": ["rbind", "ro" if m.get("readOnly") else "rw"]} for m in container["volumeMounts"]]
        spaces = ["mount", "ipc", "uts", "network"] + ([] if pod.get("hostPID") else ["pid"])
        config = {
            "ociVersion": "1.0.2", "hostname": "drdotnet",
            "process": {"args": ["/app/drdotnet", *map(str, words)], "cwd": "/tmp",
                        "env": ["PATH=/app"] + [f"{e['name']}={e['value']}" for e in container["env"]],
                        "user": {"uid": rights["runAsUser"], "gid": rights.get("runAsGroup", 0)},
                        "noNewPrivileges": True,
                        "capabilities": {kind: added for kind in ("bounding", "effective", "permitted")}},
            "root": {"path": str(self.root), "readonly": rights["readOnlyRootFilesystem"]},
            "mounts": mounts, "linux": {"namespaces": [{"type": t} for t in spaces]},
        }
        with tempfile.TemporaryDirectory(prefix="bundle-") as bundle:
            (Path(bundle) / "config.json").write_text(json.dumps(config))
            name = Path(bundle).name
            done = subprocess.run(["runc", "run", "--bundle", bundle, name], stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=SECONDS)
            subprocess.run(["runc", "delete", "--force", name], capture_output=True)
        return done

    def well(self, *words):
        done = self.run_in(*words)
        self.assertEqual(done.returncode, 0, f"{words[2:]}: {done.stdout[-2000:]} {done.stderr[-2000:]}")
        return done.stdout

    def volumes(self, pod):
        """An empty folder for each volume of the pod."""
        made = {}
        for volume in pod["volumes"]:
            made[volume["name"]] = Path(tempfile.mkdtemp(dir=self.folder))
            group = pod.get("securityContext", {}).get("fsGroup")
            made[volume["name"]].chmod(0o2777 if group else 0o755 if "hostPath" in volume else 0o777)
            if group:
                os.chown(made[volume["name"]], 0, group)
        return made

    def test_on_every_node(self):
        """A pod by its name, all four ways."""
        for recipe in ("node", "node-old-kernel"):
            pod = render(recipe)["DaemonSet/drdotnet"]["spec"]["template"]["spec"]
            volumes = self.volumes(pod)
            container = os.urandom(32).hex()
            parents = [p for p in (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")) if (p / "cgroup.procs").exists()]
            group = parents[0] / container
            group.mkdir()
            self.addCleanup(group.rmdir)
            (volumes["pods"] / f"api-7c9f-x2_shop_api-{container}.log").touch()
            prefix = ["sh", "-ec", f'echo $$ >{group}/cgroup.procs; exec "$0" "$@"']
            with self.subTest(recipe), Patient("deadlock", fx=FX, prefix=prefix, env={"TMPDIR": str(self.folder)}) as patient:
                self.assertRegex(self.well(pod, volumes, "ps"), rf"(?m)^ *{patient.pid} .* shop/api-7c9f-x2/api ")
                ways = json.loads(self.well(pod, volumes, "check", "shop/api-7c9f-x2", "--json"))["ways"]
                self.assertEqual({w for w, facts in ways.items() if facts["open"]} & {"events", "samples", "image", "agent"},
                                 {"events", "samples", "image", "agent"}, ways)
                said = self.well(pod, volumes, "deadlocks", "shop/api-7c9f-x2", "--way", "image", "--json")
                self.assertEqual(json.loads(said)["verdict"]["finding"], "deadlock")
                self.well(pod, volumes, "off-cpu", "shop/api-7c9f-x2", "--way", "samples", "-d", "1s")
                self.assertTrue(patient.alive())

    def test_beside_an_app(self):
        """Without any right: events and the agent. With the pod's process ids: the other two as well."""
        for recipe, ways_open in (("sidecar", {"events", "agent"}), ("sidecar-pid", {"events", "samples", "image", "agent"})):
            pod = render(recipe)["Deployment/api"]["spec"]["template"]["spec"]
            volumes = self.volumes(pod)
            shared, user = volumes["diagnostics"], pod["securityContext"]["fsGroup"]
            app_mounts = next(c for c in pod["containers"] if c["name"] == "api")["volumeMounts"]
            self.assertEqual([(m["name"], m["mountPath"]) for m in app_mounts], [("diagnostics", "/tmp")])
            # The tests may lie below /tmp themselves.
            keep = f"mount --rbind {ROOT} /mnt;" if ROOT.is_relative_to("/tmp") else ""
            back = f"mkdir -p {ROOT}; mount --rbind /mnt {ROOT};" if keep else ""
            prefix = ["unshare", "--mount", "sh", "-ec", f"{keep} mount --bind {shared} /tmp; {back} exec setpriv --reuid {user} "
                      f'--regid {user} --clear-groups "$0" "$@"']
            with self.subTest(recipe), Patient("exceptions", fx=FX, prefix=prefix, rate=100) as patient:
                if pod.get("shareProcessNamespace"):
                    pod["hostPID"] = True  # whose process it is does not matter here: it is seen
                target = patient.pid if pod.get("hostPID") else json.loads(self.well(pod, volumes, "ps", "--json"))[0]["id"]
                ways = json.loads(self.well(pod, volumes, "check", target, "--json"))["ways"]
                self.assertEqual({w for w, facts in ways.items() if facts["open"]} & {"events", "samples", "image", "agent"},
                                 ways_open, ways)
                said = json.loads(self.well(pod, volumes, "exceptions", target, "-d", "2s", "--json"))
                self.assertEqual(said["verdict"]["health"], "warn")
                self.well(pod, volumes, "heap-stats", target)
                self.assertTrue(patient.alive())

    def test_what_is_given_and_nothing_else(self):
        node = render("node")
        self.assertEqual(set(node), {"Namespace/drdotnet", "DaemonSet/drdotnet", "NetworkPolicy/drdotnet"})
        self.assertEqual(node["NetworkPolicy/drdotnet"]["spec"]["policyTypes"], ["Ingress", "Egress"])
        page = (ROOT / "docs" / "kubernetes.md").read_text()
        for recipe, kind in (("node", "DaemonSet/drdotnet"), ("node-old-kernel", "DaemonSet/drdotnet"),
                             ("sidecar", "Deployment/api"), ("sidecar-pid", "Deployment/api")):
            with self.subTest(recipe):
                pod = render(recipe)[kind]["spec"]["template"]["spec"]
                rights = the_doctor(pod)["securityContext"]
                added = set(rights["capabilities"].get("add", []))
                self.assertFalse(rights.get("privileged"))
                self.assertTrue(rights["readOnlyRootFilesystem"])
                self.assertEqual("SYS_ADMIN" in added, recipe == "node-old-kernel")
                self.assertEqual(bool(added), recipe != "sidecar")
                for name in added:
                    self.assertRegex(page, rf"(?m)^\| `{name}`", "what is lost without it")
                listen = {e["name"]: e["value"] for e in the_doctor(pod)["env"]}["DRDOTNET_LISTEN"]
                self.assertTrue(listen.startswith("127.0.0.1:"), "reached by kubectl, not by other pods")


if __name__ == "__main__":
    unittest.main()
