//! The controls of the Pod Security Standards, in the order of upstream's files.
//!
//! Upstream counterpart: `policy/check_*.go` of `k8s.io/pod-security-admission`. Objects are those that the API server has
//! decoded: a text that is part of a structure is there even if it is empty.

use kyvtest_kyverno::classic::pod_security::{CAPABILITIES, SYSCTLS, VOLUMES};

use super::Standard;
use crate::Expr;

/// The types of SELinux contexts that are allowed, in the order in which they became so.
const SE_LINUX: [&str; 5] = [
    "",
    "container_t",
    "container_init_t",
    "container_kvm_t",
    "container_engine_t",
];

/// Names of variables and their conditions.
pub(super) fn all(standard: &Standard<'_>) -> Vec<(&'static str, Expr)> {
    let mut all = vec![
        ("appArmorAllowed", app_armor(standard)),
        ("capabilitiesAllowed", capabilities(standard)),
        ("noHostNamespaces", host_namespaces(standard)),
        ("noHostPathVolumes", host_path_volumes(standard)),
        ("noHostPorts", host_ports(standard)),
        ("noProbeHosts", host_probes(standard)),
        ("notPrivileged", privileged(standard)),
        ("procMountAllowed", proc_mount(standard)),
        ("seLinuxAllowed", se_linux(standard)),
        ("seccompAllowed", seccomp(standard)),
        ("sysctlsAllowed", sysctls(standard)),
        ("noHostProcesses", host_process(standard)),
    ];
    if standard.restricted {
        all.extend([
            ("noPrivilegeEscalation", privilege_escalation(standard)),
            ("capabilitiesDropped", capabilities_dropped(standard)),
            ("volumesAllowed", volumes(standard)),
            ("runsAsNonRoot", run_as_non_root(standard)),
            ("userIsNotRoot", run_as_user(standard)),
            ("seccompSet", seccomp_set(standard)),
        ]);
    }
    all
}

/// A path of fields that may be missing, with a value in place of the missing one.
fn read(owner: &Expr, path: &[&str], missing: Expr) -> Expr {
    path.iter()
        .fold(owner.clone(), |at, field| at.optional(field))
        .call("orValue", [missing])
}

fn list(owner: &Expr, path: &[&str]) -> Expr {
    read(owner, path, Expr::list([]))
}

fn flag(owner: &Expr, path: &[&str]) -> Expr {
    read(owner, path, Expr::bool(false)).relation("==", &Expr::bool(false))
}

fn texts<'t>(items: impl IntoIterator<Item = &'t str>) -> Expr {
    Expr::list(items.into_iter().map(Expr::string))
}

fn app_armor(standard: &Standard<'_>) -> Expr {
    const CONTROL: &str = "AppArmor";
    const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
    let path = ["securityContext", "appArmorProfile", "type"];
    let profile = |owner: &Expr| {
        read(owner, &path, Expr::string("RuntimeDefault")).relation("in", &texts(["RuntimeDefault", "Localhost"]))
    };
    let annotations = read(&standard.metadata, &["annotations"], Expr::primary("{}"));
    let key = Expr::primary("key");
    let value = standard.metadata.field("annotations").index(&key);
    let other = key.call("startsWith", [Expr::string(PREFIX)]).negate();
    let allowed = Expr::any([
        other,
        value.relation("in", &texts(["", "runtime/default"])),
        value.call("startsWith", [Expr::string("localhost/")]),
    ]);
    let annotations = annotations.call("all", [key, allowed]);
    Expr::all([standard.both(CONTROL, profile), standard.pod(CONTROL, annotations)])
}

fn capabilities(standard: &Standard<'_>) -> Expr {
    standard.containers("Capabilities", |container| {
        let added = list(container, &["securityContext", "capabilities", "add"]);
        let capability = Expr::primary("capability");
        let allowed = capability.relation("in", &texts(CAPABILITIES));
        added.call("all", [capability, allowed])
    })
}

fn capabilities_dropped(standard: &Standard<'_>) -> Expr {
    let set = standard.containers("Capabilities", |container| {
        let dropped = list(container, &["securityContext", "capabilities", "drop"]);
        let added = list(container, &["securityContext", "capabilities", "add"]);
        let capability = Expr::primary("capability");
        let allowed = capability.relation("==", &Expr::string("NET_BIND_SERVICE"));
        Expr::all([
            Expr::string("ALL").relation("in", &dropped),
            added.call("all", [capability, allowed]),
        ])
    });
    Expr::any([standard.windows(), set])
}

fn host_namespaces(standard: &Standard<'_>) -> Expr {
    let fields = ["hostNetwork", "hostPID", "hostIPC"];
    let unset = fields.map(|field| flag(&standard.spec, &[field]));
    standard.pod("Host Namespaces", Expr::all(unset))
}

fn of_volumes(standard: &Standard<'_>, test: Expr) -> Expr {
    list(&standard.spec, &["volumes"]).call("all", [Expr::primary("volume"), test])
}

fn host_path_volumes(standard: &Standard<'_>) -> Expr {
    let host = Expr::primary("volume").field("hostPath").has();
    standard.pod("HostPath Volumes", of_volumes(standard, host.negate()))
}

fn volumes(standard: &Standard<'_>) -> Expr {
    let allowed = VOLUMES.map(|field| Expr::primary("volume").field(field).has());
    standard.pod("Volume Types", of_volumes(standard, Expr::any(allowed)))
}

fn host_ports(standard: &Standard<'_>) -> Expr {
    standard.containers("Host Ports", |container| {
        let port = Expr::primary("port");
        let unset = read(&port, &["hostPort"], Expr::int(0)).relation("==", &Expr::int(0));
        list(container, &["ports"]).call("all", [port, unset])
    })
}

/// No exclusion lets these through.
fn host_probes(standard: &Standard<'_>) -> Expr {
    const HANDLERS: [&[&str]; 5] = [
        &["livenessProbe"],
        &["readinessProbe"],
        &["startupProbe"],
        &["lifecycle", "postStart"],
        &["lifecycle", "preStop"],
    ];
    let container = Expr::primary("container");
    let mut unset = Vec::new();
    for handler in HANDLERS {
        for action in ["httpGet", "tcpSocket"] {
            let path: Vec<&str> = handler.iter().copied().chain([action, "host"]).collect();
            unset.push(read(&container, &path, Expr::string("")).relation("==", &Expr::string("")));
        }
    }
    let all = Expr::all(unset);
    standard.containers.call("all", [container, all])
}

fn privileged(standard: &Standard<'_>) -> Expr {
    standard.containers("Privileged Containers", |container| {
        flag(container, &["securityContext", "privileged"])
    })
}

fn proc_mount(standard: &Standard<'_>) -> Expr {
    standard.containers("/proc Mount Type", |container| {
        let default = Expr::string("Default");
        read(container, &["securityContext", "procMount"], default.clone()).relation("==", &default)
    })
}

fn se_linux(standard: &Standard<'_>) -> Expr {
    let known = if standard.is_at_least(31) { 5 } else { 4 };
    standard.both("SELinux", |owner| {
        let part = |part: &str| read(owner, &["securityContext", "seLinuxOptions", part], Expr::string(""));
        Expr::all([
            part("type").relation("in", &texts(SE_LINUX.into_iter().take(known))),
            part("user").relation("==", &Expr::string("")),
            part("role").relation("==", &Expr::string("")),
        ])
    })
}

const SECCOMP: [&str; 3] = ["securityContext", "seccompProfile", "type"];

/// Whether a profile is allowed, given what counts if there is none.
fn profile(owner: &Expr, missing: &str) -> Expr {
    read(owner, &SECCOMP, Expr::string(missing)).relation("in", &texts(["RuntimeDefault", "Localhost"]))
}

fn seccomp(standard: &Standard<'_>) -> Expr {
    standard.both("Seccomp", |owner| profile(owner, "RuntimeDefault"))
}

/// A forbidden profile hides missing ones, also if it is excluded itself.
fn seccomp_set(standard: &Standard<'_>) -> Expr {
    let pod = profile(&standard.spec, "");
    let containers = standard.containers("Seccomp", |container| profile(container, ""));
    let mut ways = vec![standard.windows(), pod, containers];
    if standard.exclusions.of_some_containers("Seccomp") {
        let container = Expr::primary("container");
        let test = profile(&container, "RuntimeDefault");
        ways.push(standard.containers.call("all", [container, test]).negate());
    }
    Expr::any(ways)
}

fn sysctls(standard: &Standard<'_>) -> Expr {
    let known = match () {
        () if standard.is_at_least(32) => 12,
        () if standard.is_at_least(29) => 10,
        () if standard.is_at_least(27) => 6,
        () => 5,
    };
    let setting = Expr::primary("sysctl");
    let allowed = setting
        .field("name")
        .relation("in", &texts(SYSCTLS.into_iter().take(known)));
    let all = list(&standard.spec, &["securityContext", "sysctls"]).call("all", [setting, allowed]);
    standard.pod("Sysctls", all)
}

fn host_process(standard: &Standard<'_>) -> Expr {
    standard.both("HostProcess", |owner| {
        flag(owner, &["securityContext", "windowsOptions", "hostProcess"])
    })
}

fn privilege_escalation(standard: &Standard<'_>) -> Expr {
    let unset = standard.containers("Privilege Escalation", |container| {
        let path = ["securityContext", "allowPrivilegeEscalation"];
        read(container, &path, Expr::bool(true)).relation("==", &Expr::bool(false))
    });
    Expr::any([standard.windows(), unset])
}

fn run_as_non_root(standard: &Standard<'_>) -> Expr {
    const CONTROL: &str = "Running as Non-root";
    let path = ["securityContext", "runAsNonRoot"];
    let pod = |missing: bool| read(&standard.spec, &path, Expr::bool(missing));
    Expr::all([
        standard.pod(CONTROL, pod(true)),
        standard.containers(CONTROL, |container| read(container, &path, pod(false))),
    ])
}

fn run_as_user(standard: &Standard<'_>) -> Expr {
    standard.both("Running as Non-root user", |owner| {
        read(owner, &["securityContext", "runAsUser"], Expr::int(1)).relation("!=", &Expr::int(0))
    })
}
