//! Variables (`{{ … }}`) in a policy: forbidden positions, and unknown variables.

use std::{borrow::Cow, fmt::Write as _, sync::LazyLock};

use super::{json, mutate, references, verify_images};
use crate::policy::{ClassicPolicy, MatchResources, Rule, UserFilter};
use kyvtest_go_compat::{
    regex::Regex,
    text::{variable, wildcard},
    yaml::{Items, Kind, Node},
};
use kyvtest_jmespath as jmespath;

/// The permitted beginnings of a query, at any time and in background scans.
const ALLOWED: &str =
    r"request|serviceAccountName|serviceAccountNamespace|element|elementIndex|@|images|image|([a-z_0-9]+\()[^{}]";
const ALLOWED_IN_BACKGROUND: &str = r"request\.|element|elementIndex|@|images|images\.|image\.|([a-z_0-9]+\()[^{}]";

/// Queries about the user, which a background scan does not know.
const ABOUT_USER: [&str; 5] = [
    r"[^\.](serviceAccountName)\b",
    r"[^\.](serviceAccountNamespace)\b",
    r"[^\.](request.userInfo)\b",
    r"[^\.](request.roles)\b",
    r"[^\.](request.clusterRoles)\b",
];

/// Like [`ALLOWED`], in a rule that mutates other objects.
const ALLOWED_WITH_TARGET: &str = r"request\.|serviceAccountName|serviceAccountNamespace|element|elementIndex|@|images|images\.|image\.|target\.|([a-z_0-9]+\()[^{}]";
const ALLOWED_WITH_TARGET_IN_BACKGROUND: &str =
    r"request\.|element|elementIndex|@|images|images\.|image\.|target\.|([a-z_0-9]+\()[^{}]";

static KNOWN_WITH_TARGET: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(ALLOWED_WITH_TARGET).ok());
static KNOWN_WITH_TARGET_IN_BACKGROUND: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(ALLOWED_WITH_TARGET_IN_BACKGROUND).ok());
static KNOWN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(ALLOWED).ok());
static KNOWN_IN_BACKGROUND: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(ALLOWED_IN_BACKGROUND).ok());
static USER: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let patterns = ABOUT_USER.iter();
    patterns.filter_map(|pattern| Regex::new(pattern).ok()).collect()
});

/// Runs all checks of variables.
///
/// # Errors
/// The first error, with upstream's message.
pub(super) fn check(policy: &ClassicPolicy, rules: &[Cow<'_, Rule>]) -> Result<(), String> {
    if policy.spec.background {
        about_user(policy, rules).map_err(|error| {
            format!(
                "only select variables are allowed in background mode. Set spec.background=false to disable background \
                 mode for this policy rule: {error} "
            )
        })?;
    }
    for rule in rules {
        let background = policy.spec.background;
        known(rule, background).map_err(|error| format!("policy contains invalid variables: {error}"))?;
    }
    Ok(())
}

/// Checks the variables of a policy that mutates existing objects when it is updated.
///
/// # Errors
/// The first error, with upstream's message.
pub(super) fn on_update(policy: &ClassicPolicy, rules: &[Cow<'_, Rule>]) -> Result<(), String> {
    if !policy_texts(policy).iter().any(|text| variable::has_variable(text)) {
        return Ok(());
    }
    for rule in rules {
        known(rule, true).map_err(|error| format!("update event, policy contains invalid variables: {error}"))?;
    }
    about_user(policy, rules).map_err(|error| {
        format!(
            "only select variables are allowed in on policy update. Set spec.mutateExistingOnPolicyUpdate=false to \
             disable update policy mode for this policy rule: {error} "
        )
    })
}

fn about_user(policy: &ClassicPolicy, rules: &[Cow<'_, Rule>]) -> Result<(), String> {
    for (i, rule) in rules.iter().enumerate() {
        user_block(&rule.matches, "match", ["any", "all"]).map_or(Ok(()), |path| {
            Err(format!("invalid variable used at path: spec/rules[{i}]/{path}"))
        })?;
        if let Some(exclude) = &rule.exclude {
            user_block(exclude, "exclude", ["all", "any"]).map_or(Ok(()), |path| {
                Err(format!("invalid variable used at path: spec/rules[{i}]/{path}"))
            })?;
        }
    }
    let mutates = policy.spec.rules.iter().filter_map(|rule| rule.mutate.as_ref());
    if mutates.into_iter().any(|mutate| {
        let targets = mutate.node().get("targets");
        targets.is_some_and(|targets| !targets.is_null())
    }) {
        return Ok(());
    }
    for text in policy_texts(policy) {
        for variable in variable::bare_variables(&text) {
            if USER.iter().any(|pattern| pattern.is_match(variable)) {
                return Err(format!("variable {variable} is not allowed"));
            }
        }
    }
    Ok(())
}

/// The parts of a policy in which variables may occur, in Go's order.
fn policy_texts(policy: &ClassicPolicy) -> Vec<String> {
    let mut texts = Vec::new();
    let mut annotations: Vec<(&str, &str)> = policy
        .metadata
        .annotations
        .iter()
        .filter(|(key, _)| key.value != "kubectl.kubernetes.io/last-applied-configuration")
        .map(|(key, value)| (key.value.as_str(), value.value.as_str()))
        .collect();
    annotations.sort_unstable();
    for (key, value) in annotations {
        texts.push(serde_json::json!({ key: value }).to_string());
    }
    for rule in &policy.spec.rules {
        texts.push(json::rule(rule.source.node(), policy.is_v2beta1()));
    }
    texts
}

/// The first user field of a block.
fn user_block(block: &MatchResources, name: &str, order: [&str; 2]) -> Option<String> {
    if let Some(word) = user_word(&block.inline.user) {
        return Some(format!("{name}/{word}"));
    }
    for list in order {
        let filters = if list == "any" { &block.any } else { &block.all };
        for (i, filter) in filters.iter().enumerate() {
            if let Some(word) = user_word(&filter.user) {
                return Some(format!("{name}/{list}[{i}]/{word}"));
            }
        }
    }
    None
}

fn user_word(user: &UserFilter) -> Option<&'static str> {
    let some = |list: &Option<Vec<_>>| list.as_ref().is_some_and(|list| !list.is_empty());
    if some(&user.roles) {
        Some("roles")
    } else if some(&user.cluster_roles) {
        Some("clusterRoles")
    } else if user.subjects.as_ref().is_some_and(|list| !list.is_empty()) {
        Some("subjects")
    } else {
        None
    }
}

/// Checks that the variables of a rule are permitted and known.
fn known(rule: &Rule, background: bool) -> Result<(), String> {
    let source = rule.source.node();
    if mutate::has_variables_in_paths(rule) {
        return Err(format!(
            "rule \"{}\" should not have variables in patchesJSON6902 path section",
            rule.name.value
        ));
    }
    for section in ["exclude", "match"] {
        let texts = source
            .get(section)
            .map(|node| kyvtest_go_compat::value::Document::from(node).root().to_json());
        if texts.is_some_and(|text| variable::has_simple_variable(&text)) {
            return Err(format!(
                "rule \"{}\" should not have variables in {section} section",
                rule.name.value
            ));
        }
    }
    if verify_images::has_variables(rule) {
        return Err(format!(
            "rule \"{}\" should not have variables in image reference section",
            rule.name.value
        ));
    }
    let part = |name: &str| rule.mutate.as_ref().and_then(|mutate| mutate.node().get(name));
    let has_targets = part("targets").is_some_and(|targets| !targets.is_null());
    if let Some(targets) = part("targets").and_then(Node::as_seq) {
        let mut allowed = Allowed::new(background, false);
        add_context_names(source, &mut allowed.names);
        let of_target = |i: usize, target: Node<'_>| {
            for section in ["context", "preconditions"] {
                if let Some(node) = source.get(section) {
                    let mut path = format!("/{section}");
                    walk_at(node, &mut path, &mut |text, path| substitute(text, path, &allowed))?;
                }
            }
            for name in ["apiVersion", "kind", "namespace", "name", "uid"] {
                if let Some(text) = target.get(name).and_then(Node::as_str) {
                    substitute(text, &format!("/mutate/targets/{i}/{name}"), &allowed)?;
                }
            }
            Ok(())
        };
        for (i, target) in targets.iter().enumerate() {
            let described = |error: String| format!("invalid variables defined at mutate.targets[{i}]: {error}");
            of_target(i, target).map_err(described)?;
        }
    }
    let mut allowed = Allowed::new(background, has_targets);
    context_names(rule, &mut allowed.names);
    references::check(source)
        .map_err(|error| format!("variable substitution failed for rule {}: {error}", rule.name.value))?;
    walk(source, &mut |text, path| {
        // The contents of an attestation are unknown until it is fetched.
        if path.starts_with("/verifyImages/") && path.contains("/attestations/") && path.contains("/conditions") {
            return Ok(());
        }
        substitute(text, path, &allowed)
    })
    .map_err(|error| format!("variable substitution failed for rule {}: {error}", rule.name.value))
}

/// The known queries.
struct Allowed {
    pattern: &'static LazyLock<Option<Regex>>,
    text: &'static str,
    names: Vec<String>,
}

impl Allowed {
    fn new(background: bool, target: bool) -> Self {
        let (pattern, text): (&'static LazyLock<Option<Regex>>, _) = match (background, target) {
            (false, false) => (&KNOWN, ALLOWED),
            (true, false) => (&KNOWN_IN_BACKGROUND, ALLOWED_IN_BACKGROUND),
            (false, true) => (&KNOWN_WITH_TARGET, ALLOWED_WITH_TARGET),
            (true, true) => (&KNOWN_WITH_TARGET_IN_BACKGROUND, ALLOWED_WITH_TARGET_IN_BACKGROUND),
        };
        Self {
            pattern,
            text,
            names: Vec::new(),
        }
    }
}

/// The patterns that the context entries of one part allow.
fn add_context_names(owner: Node<'_>, names: &mut Vec<String>) {
    let entries = owner.get("context").and_then(Node::as_seq);
    for entry in entries.into_iter().flat_map(Items::iter) {
        let name = entry.get("name").and_then(Node::as_str).unwrap_or_default();
        let has = |key: &str| entry.get(key).is_some_and(|value| !value.is_null());
        if ["apiCall", "globalReference", "imageRegistry", "variable"]
            .into_iter()
            .any(has)
        {
            names.push(format!("{name}*"));
        }
        if has("configMap") {
            for field in ["data", "metadata", "data.*", "metadata.*"] {
                names.push(format!("{name}.{field}"));
            }
        }
    }
}

/// The patterns that the context entries of a rule, its attestations and the entries of its loops allow.
fn context_names(rule: &Rule, names: &mut Vec<String>) {
    let source = rule.source.node();
    add_context_names(source, names);
    names.extend(verify_images::attestation_names(rule));
    for section in ["validate", "mutate", "generate"] {
        for list in ["foreach", "targets"] {
            let items = source
                .get(section)
                .and_then(|node| node.get(list))
                .and_then(Node::as_seq);
            for item in items.into_iter().flat_map(Items::iter) {
                add_context_names(item, names);
            }
        }
    }
}

/// Substitutes the variables of one string like upstream does if it ignores their values.
fn substitute(text: &str, path: &str, allowed: &Allowed) -> Result<(), String> {
    let mut text = Cow::Borrowed(text);
    loop {
        let found = variable::variables(&text);
        if found.is_empty() {
            return Ok(());
        }
        let mut next = text.to_string();
        let mut shallow = false;
        for span in found {
            let whole = &text[span];
            let (variable, torso) = if variable::begins_with_variable(whole) {
                (whole, String::new())
            } else {
                let mut chars = whole.chars();
                let before = chars.next().map_or(1, char::len_utf8);
                // Upstream cuts off one byte, which leaves the rest of a multi-byte character.
                (chars.as_str(), "\u{fffd}".repeat(before.saturating_sub(1)))
            };
            let query = format!("{torso}{variable}");
            let mut query = query.replace("{{", "").replace("}}", "").trim().to_owned();
            shallow = query.starts_with('-');
            if shallow {
                query = query[1..].trim().to_owned();
            }
            lookup(&query, allowed).map_err(|error| match error {
                Unknown::Empty => format!("failed to resolve {query} at path {path}: invalid query (nil)"),
                Unknown::Syntax(error) => {
                    format!("failed to resolve {query} at path {path}: invalid JMESPath query {query}: {error}")
                }
                Unknown::Name(text) => text,
            })?;
            if text == variable {
                return Ok(());
            }
            // The value is null.
            next = next.replacen(variable, "null", 1);
        }
        if shallow || next.len() >= text.len() && next == text {
            return Ok(());
        }
        text = Cow::Owned(next);
    }
}

enum Unknown {
    Empty,
    Syntax(String),
    Name(String),
}

fn lookup(query: &str, allowed: &Allowed) -> Result<(), Unknown> {
    if query == "@" {
        return Ok(());
    }
    if query.is_empty() {
        return Err(Unknown::Empty);
    }
    jmespath::Expression::parse(query).map_err(|error| Unknown::Syntax(error.to_string()))?;
    let query = query.replace('"', "");
    let pattern = allowed.pattern.as_ref();
    if pattern.is_none_or(|pattern| pattern.is_match(&query))
        || allowed.names.iter().any(|name| wildcard::matches(name, &query))
    {
        return Ok(());
    }
    Err(Unknown::Name(format!(
        "variable {query} must match regex \"{}\" or patterns [{}]",
        allowed.text,
        allowed.names.join(" ")
    )))
}

/// Replaces the variables of a string.
pub(super) fn without_variables(text: &str, with: &str) -> String {
    let mut out = String::new();
    let mut end = 0;
    for span in variable::variables(text) {
        let variable = text[span.clone()].find("{{").map_or(span.start, |at| span.start + at);
        out.push_str(&text[end..variable]);
        out.push_str(with);
        end = span.end;
    }
    out.push_str(&text[end..]);
    out
}

/// Rejects `element` outside a loop.
///
/// # Errors
/// The path of the variable.
pub(super) fn element(rule: &Rule) -> Result<(), String> {
    walk(rule.source.node(), &mut |text, path| {
        for span in variable::variables(text) {
            let whole = &text[span];
            let variable = whole.find("{{").map_or(whole, |at| &whole[at..]);
            let query = variable.replace("{{", "").replace("}}", "");
            let query = query.trim();
            let query = query.strip_prefix('-').map_or(query, str::trim);
            if query.starts_with("element") && !path.contains("/foreach/") {
                return Err(format!("variable '{query}' present outside of foreach at path {path}"));
            }
        }
        Ok(())
    })
}

/// Visits every string with its path: keys with that of their map. Upstream's order is random; here it is the source
/// order.
pub(super) fn walk(node: Node<'_>, show: &mut impl FnMut(&str, &str) -> Result<(), String>) -> Result<(), String> {
    walk_at(node, &mut String::new(), show)
}

fn walk_at(
    node: Node<'_>,
    path: &mut String,
    show: &mut impl FnMut(&str, &str) -> Result<(), String>,
) -> Result<(), String> {
    let here = path.len();
    match node.kind() {
        Kind::Str(text) => show(text, path)?,
        Kind::Seq(items) => {
            for (i, item) in items.iter().enumerate() {
                let _ = write!(path, "/{i}");
                walk_at(item, path, show)?;
                path.truncate(here);
            }
        }
        Kind::Map(entries) => {
            for entry in entries.iter() {
                show(entry.key, path)?;
                path.push('/');
                for part in entry.key.split_inclusive('/') {
                    match part.strip_suffix('/') {
                        Some(part) => {
                            path.push_str(part);
                            path.push_str("\\/");
                        }
                        None => path.push_str(part),
                    }
                }
                walk_at(entry.value, path, show)?;
                path.truncate(here);
            }
        }
        _ => {}
    }
    Ok(())
}
