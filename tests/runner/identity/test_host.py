"""Host, container and neighbours."""

from __future__ import annotations

import os
import platform
from typing import Any

import pytest
from benchcard.runner.identity import container, host
from benchcard.runner.identity.container import container_fields, container_id
from benchcard.runner.identity.host import client_fields, host_fields, node
from benchcard.runner.identity.neighbours import Neighbours, busy_processes
from benchcard.runner.identity.procfs import Stat

ID = "3f4e" * 16


def test_every_fact_of_this_host_is_told_or_unknown_for_a_reason() -> None:
    fields = {**host_fields(os.getpid()), **client_fields(), **container_fields(os.getpid(), {})}
    for name, field in fields.items():
        assert field["source"] in ("observed", "unknown"), name
        assert (field["value"] is None) == (field["source"] == "unknown") == ("why" in field), name
    assert fields["host.kernel"]["value"] == platform.release()
    assert fields["host.cores"]["value"] == os.cpu_count()
    assert fields["host.memory"]["value"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert fields["client.node"] == fields["node"]
    drawn = {name for name, field in fields.items() if field.get("volatile")}
    assert drawn == {"host.frequency", "host.memory_available", "container.id"}


def test_affinity_is_the_processs_own() -> None:
    field = host_fields(os.getpid())["host.affinity"]["value"]
    cpus: set[int] = set()
    for part in field["cpus"].split(","):
        low, _, high = part.partition("-")
        cpus |= set(range(int(low), int(high or low) + 1))
    assert cpus == os.sched_getaffinity(0)
    assert field["nice"] == os.getpriority(os.PRIO_PROCESS, 0)


def test_a_node_is_known_again_and_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_text", lambda path: "0123456789abcdef")
    monkeypatch.setattr(platform, "node", lambda: "gpu-host-7")
    # printf '0123456789abcdef\ngpu-host-7' | sha256sum
    assert node() == {"value": "sha256:01e8f627e4be3fcf", "source": "observed"}
    monkeypatch.setattr(host, "_text", lambda path: None)
    assert node() == {"value": None, "source": "unknown", "why": "the machine has no /etc/machine-id"}


def test_what_a_hypervisor_calls_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(texts: dict[str, str], flags: str) -> Any:
        monkeypatch.setattr(host, "_text", lambda path: texts.get(path.name))
        return host._hypervisor({"flags": flags} if flags else {})["value"]

    assert told({"type": "xen"}, "fpu hypervisor") == "xen"
    assert told({"sys_vendor": "QEMU", "product_name": "Standard PC"}, "hypervisor") == "QEMU"
    assert told({"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine"}, "hypervisor") == "Hyper-V"
    assert told({"sys_vendor": "Dell Inc."}, "fpu vme") == "none"
    assert told({}, "fpu hypervisor") == "a hypervisor that does not name itself"
    assert told({}, "") is None


@pytest.mark.parametrize(
    ("groups", "mounts"),
    [
        (f"12:cpuset:/docker/{ID}\n0::/docker/{ID}\n", ""),
        (f"0::/system.slice/docker-{ID}.scope\n", ""),
        (f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope\n", ""),
        (
            "0::/\n",
            f"612 595 254:1 /var/lib/docker/containers/{ID}/hostname /etc/hostname rw,relatime - ext4 /dev/vda1 rw\n",
        ),
    ],
)
def test_a_container_by_its_groups_or_its_mounts(groups: str, mounts: str) -> None:
    assert container_id(groups, mounts) == ID


def test_no_container_has_no_id() -> None:
    mounts = f"30 1 8:1 / / rw - ext4 /dev/sda1 rw\n31 30 8:1 /x/{ID}/y /home rw - ext4 /dev/sda1 rw\n"
    assert container_id("0::/user.slice/user-1000.slice/session-2.scope\n", mounts) is None


def test_the_image_is_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"cgroup": f"0::/docker/{ID}\n", "mountinfo": ""}
    monkeypatch.setattr(container, "_read", lambda pid, name: texts[name])
    fields = container_fields(os.getpid(), {"CONTAINER_IMAGE_DIGEST": "vllm/vllm-openai@sha256:ab"})
    assert fields["container.image"] == {"value": "vllm/vllm-openai@sha256:ab", "source": "observed"}
    assert fields["container.id"] == {"value": ID, "source": "observed", "volatile": True}
    assert container_fields(os.getpid(), {})["container.image"]["source"] == "unknown"
    texts["cgroup"] = "0::/user.slice\n"
    monkeypatch.setattr(container, "_signs", lambda pid, groups: [])
    assert container_fields(os.getpid(), {})["container.image"] == {"value": "none", "source": "observed"}


def test_a_pod_is_marked_and_not_named() -> None:
    fields = container_fields(os.getpid(), {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOSTNAME": "vllm-0"})
    # printf 'vllm-0' | sha256sum
    assert fields["pod"]["value"] == "sha256:a4c5b8fa895e0bb1"
    assert container_fields(os.getpid(), {"HOSTNAME": "x"})["pod"]["value"] == "none"


def test_who_is_busy() -> None:
    before = {
        1: Stat(1, 0, "init", 1, 1000), 2: Stat(2, 1, "gcc", 5, 100), 3: Stat(3, 1, "idle", 6, 50),
        4: Stat(4, 1, "old", 7, 900), 5: Stat(5, 1, "server", 8, 10),
    }  # fmt: skip
    now = {
        1: Stat(1, 0, "init", 1, 1000), 2: Stat(2, 1, "gcc", 5, 190), 3: Stat(3, 1, "idle", 6, 54),
        4: Stat(4, 1, "new", 77, 30), 5: Stat(5, 1, "server", 8, 110), 6: Stat(6, 1, "cc1", 80, 30),
    }  # fmt: skip
    # Over 1 s of 100 ticks: gcc 90, init 0, idle 4 (under 5%); number 4 is another process now, 30; cc1 began since.
    assert busy_processes(before, now, {5}, 1.0, 100) == [
        {"command": "gcc", "cpu": 0.9}, {"command": "cc1", "cpu": 0.3}, {"command": "new", "cpu": 0.3},
    ]  # fmt: skip
    assert busy_processes(before, now, {5}, 0.0, 100) == []


def test_neighbours_are_others_than_ours() -> None:
    fields = Neighbours().fields([os.getpid()])
    assert len(fields["neighbours.load"]["value"]) == 3
    assert all(field["volatile"] for field in fields.values())
    assert fields["neighbours.busy"]["value"]["seconds"] >= 0.25
