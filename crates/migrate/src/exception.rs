//! PolicyExceptions of kyverno.io, as exceptions of policies.kyverno.io from the new policies.
//!
//! Upstream counterpart: `pkg/engine/policy_exceptions.go` (Kyverno 1.19) on one side, `pkg/cel/policies/vpol/engine` on the other. A
//! classic exception names rules, a new one names policies, which may replace several
//! rules.

use kyvtest_go_compat::text::wildcard;
use kyvtest_model::{
    kube::{LabelSelector, Operator},
    policy::{KindSelector, MatchResources, PolicyException, ResourceFilter, Text, UserFilter},
};
use serde_json::{Map, Value as Json, json};

use crate::{
    Expr, MigratedRule, Migration, Refusal, RefusalCode, Scope, Subject,
    conditions::{self, Failure},
    names::{Names, Variables},
    query,
};

/// A classic policy, by the name that rows and exceptions use, and what became of it.
#[derive(Debug, Clone)]
pub struct Replaced {
    /// The name; `namespace/name` of a Policy.
    pub key: String,
    /// What became of its rules.
    pub migration: Migration,
}

/// A new exception.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigratedException {
    pub object: Json,
    /// Rules that the classic exception still has to lift: they were not migrated.
    pub remaining: Vec<String>,
}

/// The object under review: the old one of a deletion.
const OBJECT: &str = "(has(object.metadata) ? object : oldObject)";

/// Migrates an exception; `None` if it names no migrated rule.
///
/// # Errors
/// A part of the exception without a translation.
pub fn migrate_exception(
    exception: &PolicyException,
    policies: &[Replaced],
) -> Result<Option<MigratedException>, Refusal> {
    let (refs, remaining) = references(exception, policies)?;
    if refs.is_empty() {
        return Ok(None);
    }
    if let Some(controls) = &exception.pod_security {
        let reason = "the exception lifts single controls of pod security; exempt images with `images` by hand";
        return Err(Refusal::new(RefusalCode::PodSecurity, reason).at(controls.span()));
    }
    let subject = Expr::primary(OBJECT);
    let mut match_conditions = vec![json!({
        "name": "match",
        "expression": block(&exception.matches, &subject)?.as_str(),
    })];
    if let Some(tree) = exception.conditions.as_ref().filter(|tree| !tree.node().is_null()) {
        let mut scope = Scope::default();
        let path = Some(Vec::new());
        scope.bind("request.object", Subject { expr: subject, path });
        let mut variables = Variables::default();
        let mut names = Names::new(scope, &mut variables);
        let test = conditions::block(tree.node(), tree.file(), Failure::Kept, &mut names)?;
        if names.variables.iter().next().is_some() {
            let reason = "the conditions need variables, which exceptions do not have";
            return Err(Refusal::new(RefusalCode::Variable, reason).at(tree.span()));
        }
        match_conditions.push(json!({"name": "conditions", "expression": test.expr.as_str()}));
    }
    let metadata = &exception.metadata;
    let mut meta = json!({"name": metadata.name.value});
    if let Some(namespace) = &metadata.namespace {
        meta["namespace"] = json!(namespace.value);
    }
    let pairs = |list: &[(Text, Text)]| -> Map<String, Json> {
        list.iter()
            .map(|(key, value)| (key.value.clone(), json!(value.value)))
            .collect()
    };
    for (key, list) in [
        ("labels", pairs(&metadata.labels)),
        ("annotations", pairs(&metadata.annotations)),
    ] {
        if !list.is_empty() {
            meta[key] = Json::Object(list);
        }
    }
    let object = json!({
        "apiVersion": "policies.kyverno.io/v1",
        "kind": "PolicyException",
        "metadata": meta,
        "spec": {"policyRefs": refs, "matchConditions": match_conditions},
    });
    Ok(Some(MigratedException { object, remaining }))
}

/// The new policies of the rules that an exception names, and the rules that were not migrated.
fn references(exception: &PolicyException, policies: &[Replaced]) -> Result<(Vec<Json>, Vec<String>), Refusal> {
    let mut refs = Vec::new();
    let mut remaining = Vec::new();
    for policy in policies {
        for rule in &policy.migration.rules {
            let lifts = |variant: &str| lifts(exception, &policy.key, &rule.name, variant);
            if rule.objects.is_empty() {
                if ["", "controllers", "cronjobs"].into_iter().any(lifts) {
                    remaining.push(format!("{}/{}", policy.key, rule.name));
                }
                continue;
            }
            for (object, variants) in rule.objects.iter().zip(&rule.variants) {
                let (lifted, kept): (Vec<&str>, Vec<&str>) = variants.iter().partition(|variant| lifts(variant));
                if lifted.is_empty() {
                    continue;
                }
                let is_lifted = |other: &&MigratedRule| {
                    let mut variants = lifted.iter();
                    variants.all(|variant| self::lifts(exception, &policy.key, &other.name, variant))
                };
                if let Some(other) = policy.migration.rules_of(object).find(|other| !is_lifted(other)) {
                    let reason = format!(
                        "the exception lifts `{}` and not `{}`, which one new policy replaces; migrate the policy with `--split`, \
                         or together with the exception",
                        rule.name, other.name
                    );
                    return Err(Refusal::new(RefusalCode::Match, reason).at(exception.matches.span));
                }
                if kept.iter().any(|variant| reaches(&exception.matches, variant)) {
                    let reason = format!(
                        "the exception lifts `{}` for some of the kinds that one new policy covers; name these kinds in `match`",
                        rule.name
                    );
                    return Err(Refusal::new(RefusalCode::Match, reason).at(exception.matches.span));
                }
                let reference = json!({"name": object["metadata"]["name"], "kind": object["kind"]});
                if !refs.contains(&reference) {
                    refs.push(reference);
                }
            }
        }
    }
    Ok((refs, remaining))
}

/// Whether an exception names a rule, as it is written or as Kyverno generates it.
pub(crate) fn lifts(exception: &PolicyException, policy: &str, rule: &str, variant: &str) -> bool {
    let name = match variant {
        "" => rule.to_owned(),
        "cronjobs" => format!("autogen-cronjob-{rule}"),
        _ => format!("autogen-{rule}"),
    };
    exception.names(policy, &name)
}

/// Whether an exception may match a resource that a variant of a rule is about.
fn reaches(block: &MatchResources, variant: &str) -> bool {
    let filters = if block.any.is_empty() { &block.all } else { &block.any };
    filters.iter().any(|filter| {
        let kinds = &filter.resources.kinds;
        kinds.is_empty()
            || kinds.iter().any(|kind| {
                let kind = kind.value.kind.as_str();
                let own = match kind {
                    "Pod" => "",
                    "CronJob" => "cronjobs",
                    _ => "controllers",
                };
                wildcard_in(kind) || own == variant
            })
    })
}

fn block(block: &MatchResources, subject: &Expr) -> Result<Expr, Refusal> {
    let each = |filters: &[ResourceFilter]| -> Result<Vec<Expr>, Refusal> {
        filters.iter().map(|filter| self::filter(filter, subject)).collect()
    };
    if block.any.is_empty() {
        return Ok(Expr::all(each(&block.all)?));
    }
    Ok(Expr::any(each(&block.any)?))
}

fn refused<T>(reason: &str, filter: &ResourceFilter) -> Result<T, Refusal> {
    Err(Refusal::new(RefusalCode::Match, reason).at(filter.span))
}

fn filter(filter: &ResourceFilter, subject: &Expr) -> Result<Expr, Refusal> {
    let resources = &filter.resources;
    if resources.namespace_selector.is_some() {
        return refused(
            "the exception selects namespaces by their labels; use `namespaceObject` by hand",
            filter,
        );
    }
    let metadata = subject.field("metadata");
    let mut parts = Vec::new();
    if resources.kinds.iter().any(|kind| !kind.value.subresource.is_empty()) {
        return refused(
            "the exception is about a subresource; test `request.subResource` by hand",
            filter,
        );
    }
    let kinds = resources.kinds.iter().map(|kind| of_kind(&kind.value, subject));
    parts.push(any_or_true(kinds.collect()));
    if !resources.operations.is_empty() {
        let operations = resources.operations.iter().map(|text| Expr::string(&text.value));
        parts.push(Expr::primary("request.operation").relation("in", &Expr::list(operations)));
    }
    let names = resources.name.iter().chain(&resources.names);
    parts.push(globs(&metadata.field("name"), names.map(|text| text.value.as_str())));
    let namespace = metadata.optional("namespace").call("orValue", [Expr::string("")]);
    parts.push(globs(
        &namespace,
        resources.namespaces.iter().map(|text| text.value.as_str()),
    ));
    for (key, value) in resources.annotations.iter().flatten() {
        if wildcard_in(&key.value) {
            return refused("the exception names annotations with wildcards", filter);
        }
        let found = metadata
            .optional("annotations")
            .optional(&key.value)
            .call("orValue", [Expr::string("")]);
        let present = metadata
            .optional("annotations")
            .optional(&key.value)
            .call("hasValue", []);
        parts.push(Expr::all([present, query::matches_glob(&found, &value.value)]));
    }
    if let Some(selector) = &resources.selector {
        parts.push(labels(&selector.value, &metadata.optional("labels"), filter)?);
    }
    parts.push(user(&filter.user, filter)?);
    Ok(Expr::all(parts))
}

fn wildcard_in(text: &str) -> bool {
    wildcard::has_wildcard(text)
}

fn any_or_true(parts: Vec<Expr>) -> Expr {
    if parts.is_empty() {
        Expr::bool(true)
    } else {
        Expr::any(parts)
    }
}

fn globs<'t>(text: &Expr, patterns: impl Iterator<Item = &'t str>) -> Expr {
    any_or_true(patterns.map(|pattern| query::matches_glob(text, pattern)).collect())
}

fn of_kind(kind: &KindSelector, subject: &Expr) -> Expr {
    let mut parts = vec![query::matches_glob(&subject.field("kind"), &kind.kind)];
    let pattern = match (kind.group.as_str(), kind.version.as_str()) {
        ("*", "*") => None,
        ("", version) => Some(version.to_owned()),
        // A version without a group is that of every group.
        ("*", version) => {
            let version_of_any = [version.to_owned(), format!("*/{version}")];
            let own = subject.field("apiVersion");
            parts.push(Expr::any(
                version_of_any.iter().map(|pattern| query::matches_glob(&own, pattern)),
            ));
            None
        }
        (group, version) => Some(format!("{group}/{version}")),
    };
    if let Some(pattern) = pattern {
        parts.push(query::matches_glob(&subject.field("apiVersion"), &pattern));
    }
    Expr::all(parts)
}

fn labels(selector: &LabelSelector, labels: &Expr, filter: &ResourceFilter) -> Result<Expr, Refusal> {
    let mut parts = Vec::new();
    for requirement in selector.requirements() {
        if wildcard_in(&requirement.key) {
            return refused("the exception names labels with wildcards", filter);
        }
        let label = labels.optional(&requirement.key);
        let present = label.call("hasValue", []);
        let found = label.call("orValue", [Expr::string("")]);
        let one_of = || globs(&found, requirement.values.iter().map(String::as_str));
        parts.push(match requirement.operator {
            Some(Operator::In) => Expr::all([present, one_of()]),
            Some(Operator::NotIn) => Expr::all([present, one_of()]).negate(),
            Some(Operator::Exists) => present,
            Some(Operator::DoesNotExist) => present.negate(),
            None => return refused("the exception selects labels with an unknown operator", filter),
        });
    }
    Ok(Expr::all(parts))
}

fn user(user: &UserFilter, filter: &ResourceFilter) -> Result<Expr, Refusal> {
    let given = |list: &Option<Vec<Text>>| list.as_ref().is_some_and(|list| !list.is_empty());
    if given(&user.roles) || given(&user.cluster_roles) {
        let reason = "the exception names roles, which CEL does not see";
        return Err(Refusal::new(RefusalCode::Roles, reason).at(filter.span));
    }
    let info = Expr::primary("request.userInfo");
    let username = info.optional("username").call("orValue", [Expr::string("")]);
    let groups = info.optional("groups").call("orValue", [Expr::list([])]);
    let mut parts = Vec::new();
    for subject in user.subjects.iter().flatten() {
        parts.push(match subject.kind.as_str() {
            "User" => query::matches_glob(&username, &subject.name),
            "Group" => {
                let group = Expr::primary("group");
                groups.call("exists", [group.clone(), query::matches_glob(&group, &subject.name)])
            }
            "ServiceAccount" => {
                let account = format!("system:serviceaccount:{}:{}", subject.namespace, subject.name);
                query::matches_glob(&username, &account)
            }
            _ => return refused("the exception names a subject of an unknown kind", filter),
        });
    }
    Ok(any_or_true(parts))
}
