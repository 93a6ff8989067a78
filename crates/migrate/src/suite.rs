//! Test files (`kyverno-test.yaml`) rewritten for the new policies: paths, rows, names.
//!
//! Upstream counterpart: none; the schema is that of `cmd/cli/kubectl-kyverno/apis/v1alpha1` (1.19). Only what must change is
//! changed, comments and layout stay. This needs nothing but the text and its tree, so it is here and not beside the test runner,
//! which says through [`Suite`] what the new policies report.
//!
//! A classic row names a rule, a new row names a policy. A rule with several policies (Pods, their controllers, CronJobs) has
//! its resources split among them by kind. Rows of rules that share a policy expect what all of these rules together decide; rows
//! that then expect the same are written once.

use std::collections::{BTreeMap, BTreeSet};

use kyvtest_go_compat::{
    value::Document,
    yaml::{self, Edits, Entry, Node, Span, emit},
};
use serde_json::Value as Json;

use crate::{MigratedRule, Migration, Refusal, exception::Replaced, migrate::objects_of};

/// What rows are grouped by: the result, and the operation.
type RowKey = (String, Option<String>);

/// Resources of a row that expect another result, by the policy, the result and the other rule that it comes from.
type Joined = BTreeMap<(String, String, String), Vec<String>>;

/// A resource type, as the rules of a policy name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceType {
    /// The API group; empty for the core.
    pub group: String,
    /// The plural: `deployments`.
    pub resource: String,
}

/// What a new policy reports for a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reported {
    /// The policy is not about the resource.
    Nothing,
    Pass,
    Fail,
    Skip,
    Error,
}

/// What the rewriting of a test file needs to know.
pub struct Suite<'s> {
    /// The policies that were migrated.
    pub policies: &'s [Replaced],
    /// Paths as the file has them under `policies` and `exceptions`, and the paths to write instead.
    pub paths: &'s [(String, Vec<String>)],
    /// The types of a resource, by its name in a row and the row's kind; empty if unknown.
    pub types: &'s dyn Fn(&str, Option<&str>) -> Vec<ResourceType>,
    /// The operation that the values give a resource under a classic policy; `None` if they do not. New policies only see the
    /// operation of a row.
    pub operations: &'s dyn Fn(&str, &str) -> Option<String>,
    /// What a new policy reports for a resource; `None` if unknown.
    pub reports: &'s dyn Fn(&str, &str) -> Option<Reported>,
    /// Whether the rule of a row is not about a resource: policy, rule and resource as the row has them. `kyverno test` passes such
    /// a row whatever it expects.
    pub excluded: &'s dyn Fn(&str, Option<&str>, &str) -> bool,
    /// What a rule of the same policy decides about a resource of a row: the row's number, rule and resource; `None` if unknown.
    pub decides: &'s dyn Fn(usize, &str, &str) -> Option<Reported>,
    /// Whether one of the replaced files stays in use, because not all of it was migrated.
    pub stays: bool,
    /// The name of the file that describes the objects which generate rules copy.
    pub context: &'s str,
}

impl std::fmt::Debug for Suite<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Suite")
            .field("paths", &self.paths)
            .finish_non_exhaustive()
    }
}

/// A rewritten test file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RewrittenSuite {
    pub text: String,
    /// What people should know: rows that change their result, rows that stay.
    pub notes: Vec<String>,
    /// The files with objects that generate rules copy, as rows name them: the new policies read them from the context file.
    pub copied: Vec<String>,
    /// Files to write beside the test file, by name.
    pub files: Vec<(String, String)>,
    /// How many results the original has, and how many of them fail.
    pub original: (usize, usize),
    /// Why the rewritten file does not pass as the original does; it is not written then.
    pub refusal: Option<Refusal>,
}

/// Rewrites a test file; `None` if nothing in it changes.
///
/// # Errors
/// Text that is not YAML.
pub fn rewrite_suite(text: &str, suite: &Suite<'_>) -> Result<Option<RewrittenSuite>, yaml::Error> {
    let tree = yaml::read_first(text, yaml::Mode::Lax, &yaml::Limits::default())?;
    let root = tree.root();
    let mut rewrite = Rewrite {
        text,
        suite,
        edits: Edits::new(text),
        notes: Vec::new(),
        copied: Vec::new(),
        known: BTreeSet::new(),
    };
    for key in ["policies", "exceptions"] {
        if let Some(entry) = root.as_map().and_then(|entries| entries.get(key)) {
            rewrite.paths(root, entry);
        }
    }
    let rows = root.get("results").and_then(Node::as_seq);
    for (number, row) in rows.into_iter().flat_map(yaml::Items::iter).enumerate() {
        rewrite.row(number, row);
    }
    if rewrite.edits.is_empty() {
        return Ok(None);
    }
    let Rewrite {
        edits,
        mut notes,
        copied,
        ..
    } = rewrite;
    let mut text = edits.finish();
    if !copied.is_empty() {
        if root.get("context").is_some() {
            notes.push("the objects that are copied have to be added to the `context` file by hand".to_owned());
        } else {
            text = with_file(&text, "context", suite.context)?;
        }
    }
    Ok(Some(RewrittenSuite {
        text,
        notes,
        copied,
        files: Vec::new(),
        original: (0, 0),
        refusal: None,
    }))
}

/// Sets a field of a test file to the name of a file.
///
/// # Errors
/// Text that is not YAML.
pub fn with_file(text: &str, field: &str, file: &str) -> Result<String, yaml::Error> {
    let tree = yaml::read_first(text, yaml::Mode::Lax, &yaml::Limits::default())?;
    let entry = tree.root().as_map().and_then(|entries| entries.get(field));
    let name = emit::quote(file);
    if let Some(entry) = entry {
        let mut edits = Edits::new(text);
        edits.replace(entry.value.span(), name);
        return Ok(edits.finish());
    }
    let end = if text.ends_with('\n') { "" } else { "\n" };
    Ok(format!("{text}{end}{field}: {name}\n"))
}

/// The test file with only some of its rows; the `number`th of several has a name of its own.
///
/// # Errors
/// Text that is not YAML.
pub fn with_rows(text: &str, keep: &dyn Fn(usize) -> bool, number: usize) -> Result<String, yaml::Error> {
    let tree = yaml::read_first(text, yaml::Mode::Lax, &yaml::Limits::default())?;
    let root = tree.root();
    let mut edits = Edits::new(text);
    if let Some(name) = root.get("metadata").and_then(|metadata| metadata.get("name"))
        && let (Some(own), true) = (name.as_str(), number > 1)
    {
        edits.replace(name.span(), emit::quote(&format!("{own}-{number}")));
    }
    let rows = root.get("results").and_then(Node::as_seq);
    let dropped = rows.into_iter().flat_map(yaml::Items::iter).enumerate();
    for (_, row) in dropped.filter(|(index, _)| !keep(*index)) {
        edits.replace(lines(row, text), "");
    }
    Ok(edits.finish())
}

struct Rewrite<'t, 's> {
    text: &'t str,
    suite: &'s Suite<'s>,
    edits: Edits<'t>,
    notes: Vec<String>,
    /// Files with objects that generate rules copy.
    copied: Vec<String>,
    /// What the rows so far expect of policies that replace several rules.
    known: BTreeSet<String>,
}

/// A row as it is written.
struct OldRow<'r> {
    number: usize,
    policy: &'r str,
    rule: Option<&'r str>,
    kind: Option<&'r str>,
    resources: Vec<&'r str>,
    expected: &'r str,
    has_operation: bool,
    /// The fields that new rows keep.
    rest: String,
    migration: &'r Migration,
    /// How notes name the row.
    shown: String,
}

impl<'r> OldRow<'r> {
    fn new(number: usize, row: Node<'r>, migration: &'r Migration, shown: String) -> Self {
        let text = |key: &str| row.get(key).and_then(Node::as_str);
        let resources = row.get("resources").and_then(Node::as_seq);
        let mut rest = Document::from(row).root().to_serde();
        if let Some(fields) = rest.as_object_mut() {
            fields.retain(|key, _| !["policy", "rule", "resources", "result"].contains(&key.as_str()));
        }
        Self {
            number,
            policy: text("policy").unwrap_or_default(),
            rule: text("rule"),
            kind: text("kind"),
            resources: resources
                .into_iter()
                .flat_map(yaml::Items::iter)
                .filter_map(Node::as_str)
                .collect(),
            expected: text("result").unwrap_or_default(),
            has_operation: row.get("operation").is_some(),
            rest: rest.to_string(),
            migration,
            shown,
        }
    }
}

/// One new row: its policy, its resources and its result.
struct NewRow<'r> {
    policy: &'r str,
    /// The field that says which kind of policy the row is about.
    marker: &'static str,
    /// Resources of the row that the policy is about; `None` if all of them.
    resources: Option<Vec<String>>,
    result: String,
    /// The operation to add to the row.
    operation: Option<String>,
}

impl Rewrite<'_, '_> {
    fn paths(&mut self, root: Node<'_>, entry: Entry<'_>) {
        let written: Vec<String> = entry
            .value
            .as_seq()
            .into_iter()
            .flat_map(yaml::Items::iter)
            .filter_map(|path| path.as_str().map(str::to_owned))
            .collect();
        let mut paths: Vec<String> = Vec::new();
        for path in &written {
            let replaced = self.suite.paths.iter().find(|(old, _)| old == path);
            let new = replaced.map_or_else(|| vec![path.clone()], |(_, new)| new.clone());
            for path in new {
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
        }
        if paths == written {
            return;
        }
        // A single path is replaced where it is, which keeps the comments around it.
        if let (Some(items), true) = (entry.value.as_seq(), paths.len() == written.len()) {
            for (item, path) in items.iter().zip(&paths) {
                if item.as_str() != Some(path) {
                    self.edits.replace(item.span(), emit::quote(path));
                }
            }
            return;
        }
        self.edits.replace_by_list(root, entry, entry.key, &paths);
    }

    fn row(&mut self, number: usize, row: Node<'_>) {
        let text = |key: &str| row.get(key).and_then(Node::as_str);
        let Some(policy) = text("policy") else { return };
        let Some(replaced) = self.suite.policies.iter().find(|replaced| replaced.key == policy) else {
            return;
        };
        let wanted = text("rule").map(plain_rule);
        let rules: Vec<&MigratedRule> = replaced
            .migration
            .rules
            .iter()
            .filter(|rule| wanted.is_none_or(|wanted| rule.name == wanted))
            .collect();
        let rule_name = wanted.unwrap_or("any rule");
        if rules.is_empty() || rules.iter().any(|rule| rule.objects.is_empty()) {
            self.notes.push(format!(
                "the row for policy `{policy}`, {rule_name} stays: the rule was not migrated"
            ));
            return;
        }
        let shown = format!("policy `{policy}`, rule `{rule_name}`");
        let old = OldRow::new(number, row, &replaced.migration, shown);
        let rows = self.new_rows(&old, &rules);
        let flow = self.edits.is_flow(row);
        if rows.is_empty() {
            let goes = !self.suite.stays && !flow;
            let becomes = if goes { "is left out" } else { "stays" };
            self.notes.push(format!(
                "the row for policy `{policy}`, {rule_name} {becomes}: no new policy reports on its resources"
            ));
            if goes {
                self.edits.replace(lines(row, self.text), "");
            }
            return;
        }
        let rows = if flow { rows } else { self.without_known(&old, rows) };
        if rows.is_empty() {
            // Rows of other rules expect the same of the same policy.
            self.edits.replace(lines(row, self.text), "");
        } else {
            self.replace(row, &rows);
        }
    }

    /// Writes new rows in place of one.
    fn replace(&mut self, row: Node<'_>, rows: &[NewRow<'_>]) {
        let source = row.get("cloneSourceResource").and_then(Node::as_str);
        if let Some(source) = source.filter(|_| rows.iter().any(|new| new.marker == "isGeneratingPolicy"))
            && !self.copied.iter().any(|known| known == source)
        {
            self.copied.push(source.to_owned());
        }
        let indent = self.edits.indent(row.span().start);
        let dash = indent.get(..indent.len().saturating_sub(2)).unwrap_or_default();
        let separator = if self.edits.is_flow(row) {
            ", ".to_owned()
        } else {
            format!("\n{dash}- ")
        };
        let texts: Vec<String> = rows.iter().map(|new| self.rendered(row, new)).collect();
        self.edits.replace(content(row, self.text), texts.join(&separator));
    }

    /// Leaves out what earlier rows expect of the same policies.
    fn without_known<'r>(&mut self, old: &OldRow<'_>, rows: Vec<NewRow<'r>>) -> Vec<NewRow<'r>> {
        let mut kept = Vec::new();
        for mut new in rows {
            let own = new.resources.clone();
            let all = own.unwrap_or_else(|| old.resources.iter().map(|name| (*name).to_owned()).collect());
            let mut fresh: Vec<String> = all.clone();
            fresh.retain(|resource| {
                let operation = new.operation.as_deref().unwrap_or_default();
                let parts = [new.policy, resource, &new.result, operation, &old.rest];
                self.known.insert(parts.join("\n"))
            });
            if fresh.len() != all.len() {
                new.resources = Some(fresh);
            }
            if all.is_empty() || new.resources.as_ref().is_none_or(|resources| !resources.is_empty()) {
                kept.push(new);
            }
        }
        kept
    }

    /// The rows that replace a row.
    fn new_rows<'r>(&mut self, old: &OldRow<'r>, rules: &[&'r MigratedRule]) -> Vec<NewRow<'r>> {
        let mut rows: Vec<NewRow<'r>> = Vec::new();
        let mut covered: BTreeSet<&str> = BTreeSet::new();
        let mut joined = Joined::new();
        for object in objects_of(rules.iter().copied()) {
            let policy = object["metadata"]["name"].as_str().unwrap_or_default();
            let marker = marker(object);
            let fits = |resource: &str| {
                let types = (self.suite.types)(resource, old.kind);
                let matched = types.is_empty() || types.iter().any(|ty| is_about(object, ty));
                matched && (self.suite.reports)(policy, resource) != Some(Reported::Nothing)
            };
            let new_row = |(result, operation): RowKey, resources| NewRow {
                policy,
                marker,
                resources,
                result,
                operation,
            };
            if old.resources.is_empty() {
                if fits("") {
                    rows.push(new_row((old.expected.to_owned(), None), None));
                }
                continue;
            }
            let fitting: Vec<&str> = old.resources.iter().copied().filter(|name| fits(name)).collect();
            let mut by_result: Vec<(RowKey, Vec<String>)> = Vec::new();
            for resource in fitting {
                let result = self.result(old, rules, object, resource, &mut joined);
                let operation = (self.suite.operations)(old.policy, resource).filter(|_| !old.has_operation);
                let key = (result, operation);
                covered.insert(resource);
                match by_result.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, resources)) => resources.push(resource.to_owned()),
                    None => by_result.push((key, vec![resource.to_owned()])),
                }
            }
            for (key, resources) in by_result {
                let resources = Some(resources).filter(|resources| resources.len() != old.resources.len());
                rows.push(new_row(key, resources));
            }
        }
        for ((policy, result, other), resources) in joined {
            self.notes.push(format!(
                "{}: expects `{result}` for {}, not `{}`: policy `{policy}` also replaces rule `{other}`",
                old.shown,
                resources.join(", "),
                old.expected
            ));
        }
        for resource in &old.resources {
            if !rows.is_empty() && !covered.contains(resource) {
                let shown = &old.shown;
                self.notes.push(format!(
                    "{shown}: `{resource}` is left out: no new policy reports on it"
                ));
            }
        }
        rows
    }

    /// What a row expects of a new policy for a resource, with a note if that is not what it expects of the rules.
    /// Resources whose result follows from another rule are collected in `joined`.
    fn result(
        &mut self,
        old: &OldRow<'_>,
        rules: &[&MigratedRule],
        object: &Json,
        resource: &str,
        joined: &mut Joined,
    ) -> String {
        let shown = &old.shown;
        let policy = object["metadata"]["name"].as_str().unwrap_or_default();
        let (expected, because) = self.with_other_rules(old, rules, object, resource);
        let in_cel = old.migration.rules_of(object).any(|rule| rule.in_cel);
        let reported = (self.suite.reports)(policy, resource);
        let (result, note) = match (expected, reported) {
            ("pass" | "fail", Some(Reported::Skip)) if (self.suite.excluded)(old.policy, old.rule, resource) => (
                "skip",
                Some(format!(
                    "{shown}: the rule is not about `{resource}`, and the new policy skips it"
                )),
            ),
            // A classic `skip` is a `pass` if the new policy has no condition for it.
            ("skip", Some(Reported::Pass)) => (
                "pass",
                Some(format!(
                    "{shown}: `{resource}` is skipped by the rule and passes the new policy"
                )),
            ),
            ("fail", Some(Reported::Error)) if in_cel => (
                "error",
                Some(format!(
                    "{shown}: an expression cannot be evaluated on `{resource}`, which fails the rule and is an error of the \
                     new policy"
                )),
            ),
            (expected, _) => {
                if let Some(other) = because {
                    let change = (policy.to_owned(), expected.to_owned(), other.to_owned());
                    joined.entry(change).or_default().push(format!("`{resource}`"));
                }
                (expected, None)
            }
        };
        self.notes.extend(note);
        result.to_owned()
    }

    /// What a row expects of a policy that replaces other rules as well, and the rule because of which that is another result.
    fn with_other_rules<'o>(
        &self,
        old: &OldRow<'o>,
        rules: &[&MigratedRule],
        object: &'o Json,
        resource: &str,
    ) -> (&'o str, Option<&'o str>) {
        let own = |other: &&MigratedRule| rules.iter().any(|rule| rule.name == other.name);
        let others: Vec<&MigratedRule> = old.migration.rules_of(object).filter(|other| !own(other)).collect();
        let unscored = object["metadata"]["annotations"]["policies.kyverno.io/scored"] == "false";
        let fail = if unscored { "warn" } else { "fail" };
        for (decision, result, weaker) in [
            (Reported::Fail, fail, &["pass", "skip", "error"][..]),
            (Reported::Error, "error", &["pass", "skip"]),
            (Reported::Pass, "pass", &["skip"]),
        ] {
            if !weaker.contains(&old.expected) {
                continue;
            }
            let decides =
                |other: &&&MigratedRule| (self.suite.decides)(old.number, &other.name, resource) == Some(decision);
            if let Some(other) = others.iter().find(decides) {
                return (result, Some(&other.name));
            }
        }
        (old.expected, None)
    }

    /// The text of a new row: that of the old one with other values.
    fn rendered(&self, row: Node<'_>, new: &NewRow<'_>) -> String {
        let mut changes: Vec<(Span, String)> = Vec::new();
        let entries = row.as_map();
        let entry = |key: &str| entries.and_then(|entries| entries.get(key));
        let flow = self.edits.is_flow(row);
        let indent = self.edits.indent(row.span().start);
        let gap = if flow { ", ".to_owned() } else { format!("\n{indent}") };
        let marked = entry(new.marker).is_some();
        let mark = format!("{}: true", new.marker);
        let mut policy = format!("policy: {}", emit::quote(new.policy));
        match entry("rule") {
            Some(rule) if !marked => changes.push((Edits::entry_span(rule), mark)),
            None if !marked => policy = format!("{policy}{gap}{mark}"),
            _ => {}
        }
        if let Some(operation) = &new.operation {
            policy = format!("{policy}{gap}operation: {operation}");
        }
        if let Some(entry) = entry("policy") {
            changes.push((Edits::entry_span(entry), policy));
        }
        if let Some(entry) = entry("result") {
            changes.push((Edits::entry_span(entry), format!("result: {}", new.result)));
        }
        if let (Some(entry), Some(resources)) = (entry("resources"), &new.resources) {
            let quoted: Vec<String> = resources.iter().map(|resource| emit::quote(resource)).collect();
            let list = if flow || self.edits.is_flow(entry.value) {
                format!("resources: [{}]", quoted.join(", "))
            } else {
                let items = quoted.iter().map(|resource| format!("\n{indent}- {resource}"));
                format!("resources:{}", items.collect::<String>())
            };
            changes.push((Edits::entry_span(entry), list));
        }
        let span = content(row, self.text);
        changes.sort_by_key(|(span, _)| span.start);
        let mut out = String::new();
        let mut done = span.start;
        for (at, text) in changes {
            out.push_str(&self.text[done as usize..at.start as usize]);
            out.push_str(&text);
            done = at.end;
        }
        out.push_str(&self.text[done as usize..span.end as usize]);
        out
    }
}

/// The field of a row that says which kind of policy it is about.
fn marker(policy: &Json) -> &'static str {
    let kind = policy["kind"].as_str().unwrap_or_default();
    match kind.strip_prefix("Namespaced").unwrap_or(kind) {
        "MutatingPolicy" => "isMutatingPolicy",
        "GeneratingPolicy" => "isGeneratingPolicy",
        "DeletingPolicy" => "isDeletingPolicy",
        "ImageValidatingPolicy" => "isImageValidatingPolicy",
        _ => "isValidatingPolicy",
    }
}

/// The text of a row without the blanks behind it.
fn content(row: Node<'_>, text: &str) -> Span {
    let span = row.span();
    let own = &text[span.start as usize..span.end as usize];
    let length = u32::try_from(own.trim_end().len()).unwrap_or_default();
    Span::new(span.start, span.start + length)
}

/// The lines of a row of a block list.
fn lines(row: Node<'_>, text: &str) -> Span {
    let span = content(row, text);
    let (start, end) = (span.start as usize, span.end as usize);
    let start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let end = text[end..].find('\n').map_or(text.len(), |at| end + at + 1);
    let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    Span::new(offset(start), offset(end))
}

/// A rule as it is written in the policy, not as Kyverno generates it for controllers.
fn plain_rule(rule: &str) -> &str {
    let rule = rule.strip_prefix("autogen-").unwrap_or(rule);
    rule.strip_prefix("cronjob-").unwrap_or(rule)
}

/// Whether the rules of a new policy name a resource type.
fn is_about(policy: &Json, ty: &ResourceType) -> bool {
    let texts = |value: &Json| -> BTreeSet<String> {
        let items = value.as_array().into_iter().flatten();
        items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
    };
    let rules = policy["spec"]["matchConstraints"]["resourceRules"].as_array();
    rules.into_iter().flatten().any(|rule| {
        let (groups, resources) = (texts(&rule["apiGroups"]), texts(&rule["resources"]));
        let group = groups.contains("*") || groups.contains(&ty.group);
        let plain = |name: &String| name.split('/').next() == Some(ty.resource.as_str());
        group && (resources.contains("*") || resources.contains("*/*") || resources.iter().any(plain))
    })
}
