//! `validate.podSecurity` in CEL, one named condition per control.
//!
//! Upstream counterpart: `pkg/pss` and `policy/check_*.go` of `k8s.io/pod-security-admission`, by way of
//! `kyvtest_kyverno::classic::pod_security`: what a restricted check overrides still runs, and the first revision of a check
//! applies to versions before it.
//!
//! Refused: exclusions of single fields or values, and versions in which seccomp profiles were annotations.

mod controls;
mod exclusions;

use kyvtest_kyverno::classic::pod_security::{PodSecurity, Version};
use kyvtest_model::policy::Subtree;

use crate::{
    Expr, Refusal, RefusalCode, Subject,
    names::{Names, Variables},
};
use exclusions::Exclusions;

fn refused<T>(reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(RefusalCode::PodSecurity, reason))
}

/// Where the Pod of an object is, and what is known about the standard.
struct Standard<'e> {
    spec: Expr,
    metadata: Expr,
    /// All containers of the Pod, as a variable.
    containers: Expr,
    restricted: bool,
    /// The minor version; `None` for the newest.
    minor: Option<u64>,
    exclusions: &'e Exclusions,
}

impl Standard<'_> {
    fn is_at_least(&self, minor: u64) -> bool {
        self.minor.is_none_or(|own| own >= minor)
    }

    /// Whether all containers that a control is about have a property.
    fn containers(&self, control: &str, property: impl Fn(&Expr) -> Expr) -> Expr {
        let container = Expr::primary("container");
        match self.exclusions.of_container(control, &container) {
            Some(excluded) => {
                let test = Expr::any([excluded, property(&container)]);
                self.containers.call("all", [container, test])
            }
            None => Expr::bool(true),
        }
    }

    /// A property of the Pod, unless the control is excluded for it.
    fn pod(&self, control: &str, property: Expr) -> Expr {
        if self.exclusions.of_pod(control) {
            Expr::bool(true)
        } else {
            property
        }
    }

    /// The same property of the Pod and of its containers.
    fn both(&self, control: &str, property: impl Fn(&Expr) -> Expr) -> Expr {
        Expr::all([
            self.pod(control, property(&self.spec)),
            self.containers(control, property),
        ])
    }

    /// Whether the Pod says that it is for Windows.
    fn windows(&self) -> Expr {
        if !self.is_at_least(25) {
            return Expr::bool(false);
        }
        let name = self.spec.optional("os").optional("name");
        name.call("orValue", [Expr::string("")])
            .relation("==", &Expr::string("windows"))
    }
}

/// Translates the standard for an object.
pub(crate) fn translate(security: &Subtree, subject: &Subject, names: &mut Names<'_>) -> Result<Expr, Refusal> {
    let own = PodSecurity::read(security.document().root());
    let minor = match Version::parse(&own.version) {
        Ok(Version::Latest) => None,
        Ok(Version::Minor(minor)) if minor >= 19 => Some(minor),
        Ok(Version::Minor(_)) => {
            return refused("before v1.19 seccomp profiles were annotations; choose a newer version");
        }
        Err(error) => return refused(format!("the version cannot be read: {error}")),
    };
    let restricted = own.level != "baseline";
    let exclusions = Exclusions::new(&own.exclude, restricted)?;
    let (spec, metadata) = pod(subject, names)?;
    let stored = names.scope.seen() == crate::query::Seen::Stored;
    let lists = ["initContainers", "ephemeralContainers"];
    let containers = lists.iter().fold(spec.field("containers"), |all, list| {
        all.sum("+", &spec.optional(list).call("orValue", [Expr::list([])]))
    });
    let containers = names
        .variables
        .define(if stored { "oldContainers" } else { "allContainers" }, containers);
    let standard = Standard {
        spec,
        metadata,
        containers,
        restricted,
        minor,
        exclusions: &exclusions,
    };
    let controls = controls::all(&standard);
    Ok(named(controls, stored, names.variables))
}

/// The message of a rule that has none of its own: Kyverno names the standard.
pub(crate) fn message(security: &Subtree) -> String {
    let own = PodSecurity::read(security.document().root());
    format!("The Pod violates PodSecurity \"{}:{}\".", own.level, own.version)
}

/// A variable for each control, and all of them together.
fn named(controls: Vec<(&'static str, Expr)>, stored: bool, variables: &mut Variables) -> Expr {
    let read = controls.into_iter().map(|(name, expr)| {
        if expr.is_bool(true) || expr.is_bool(false) {
            return expr;
        }
        let name = if stored {
            let (first, rest) = name.split_at(1);
            format!("old{}{rest}", first.to_ascii_uppercase())
        } else {
            name.to_owned()
        };
        variables.define(&name, expr)
    });
    Expr::all(read.collect::<Vec<_>>())
}

/// The specification and the metadata of the Pod that an object is or makes.
fn pod(subject: &Subject, names: &Names<'_>) -> Result<(Expr, Expr), Refusal> {
    let root = &subject.expr;
    let mut found: Option<(Expr, Expr)> = None;
    for (_, kind) in names.scope.kinds() {
        let spec = root.field("spec");
        let own = match kind.as_str() {
            "Pod" => (spec, root.field("metadata")),
            "DaemonSet" | "Deployment" | "Job" | "StatefulSet" | "ReplicaSet" | "ReplicationController" => {
                let template = spec.field("template");
                (template.field("spec"), template.field("metadata"))
            }
            // The metadata is that of the Job, as upstream.
            "CronJob" => {
                let job = spec.field("jobTemplate");
                let template = job.field("spec").field("template");
                (template.field("spec"), job.field("metadata"))
            }
            _ => {
                return refused(format!(
                    "`{kind}` makes no Pods, so that Kyverno fails to evaluate the rule"
                ));
            }
        };
        match &found {
            Some(other) if *other != own => {
                return refused("the rule names kinds whose Pods are in different places; write a rule for each");
            }
            _ => found = Some(own),
        }
    }
    match found {
        Some(found) => Ok(found),
        None => refused("the kinds that the rule matches are not known"),
    }
}
