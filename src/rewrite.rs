//! Rewrites test files for migrated policies: the results of the new policies decide which of them a row names.
//!
//! Upstream counterpart: none. `kyvtest_migrate::rewrite_suite` changes the text; this module runs the rewritten file
//! in memory as `kyverno test` would, and rewrites it again with the results: a policy that does not match a resource
//! gets no row for it, and a row that expected `skip` expects `pass` if the new policy has no condition to skip by. A file
//! that does not pass as the original does is refused.

mod companions;
mod inverse;
mod lookups;
mod mocks;

use std::{cell::LazyCell, collections::BTreeMap, io};

use kyvtest_cel::time::Timestamp;
use kyvtest_go_compat::{text::path::clean, value::Document, yaml};
use kyvtest_migrate::{
    Refusal, RefusalCode, Replaced, Reported, ResourceType, RewrittenSuite, rewrite_suite, with_file, with_rows,
};
use kyvtest_model::{kube::Discovery, verdict::Status};
use serde_json::Value as Json;

use self::{
    companions::{CONTEXT, Companion},
    mocks::{Group, Mocks, Reading},
};
use crate::{
    run::{Case, Outcome, Settings, compat::EXCLUDED, run},
    suite::{Files, Memory, Options, Overlay, Suite, load},
};

/// A file of policies or exceptions, and the files that replace it in the same directory.
#[derive(Debug, Clone)]
pub struct Moved {
    pub old: String,
    /// Whether something in it was not migrated, so that it stays in use.
    pub stays: bool,
    /// Names and texts of the new files, in the same directory.
    pub new: Vec<(String, String)>,
}

/// Rewrites a test file; `None` if nothing in it changes. `policies` come with the files that they are in. A document becomes several
/// if its rows replace what one rule looks up by different values.
///
/// # Errors
/// If the file cannot be read.
pub fn rewrite(
    files: &dyn Files,
    test: &str,
    moved: &[Moved],
    policies: &[(String, Replaced)],
    now: Option<Timestamp>,
) -> io::Result<Option<RewrittenSuite>> {
    let text = String::from_utf8_lossy(&files.read(test)?).into_owned();
    let rewriter = Rewriter {
        files,
        test,
        moved,
        policies,
        now,
    };
    let mut whole: Option<RewrittenSuite> = None;
    let mut texts: Vec<String> = Vec::new();
    for document in documents(&text) {
        let Some(mut rewritten) = rewriter.document(document, whole.as_ref())? else {
            texts.push(document.to_owned());
            continue;
        };
        texts.push(std::mem::take(&mut rewritten.text));
        add(&mut whole, rewritten);
    }
    Ok(with_text(whole, &texts))
}

fn add(whole: &mut Option<RewrittenSuite>, part: RewrittenSuite) {
    *whole = Some(match whole.take() {
        Some(whole) => joined(whole, part),
        None => part,
    });
}

fn with_text(whole: Option<RewrittenSuite>, texts: &[String]) -> Option<RewrittenSuite> {
    whole.map(|whole| RewrittenSuite {
        text: texts.concat(),
        ..whole
    })
}

/// The documents of a file, each with the line that separates it from the one before. Documents of comments belong to the next.
fn documents(text: &str) -> Vec<&str> {
    let is_blank = |part: &str| {
        part.lines()
            .all(|line| line.trim().is_empty() || line.starts_with(['#']) || line.starts_with("---"))
    };
    let mut documents = Vec::new();
    let (mut start, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        if line.trim_end() == "---" && !is_blank(&text[start..at]) {
            documents.push(&text[start..at]);
            start = at;
        }
        at += line.len();
    }
    documents.push(&text[start..]);
    documents
}

/// Both rewritings as one; the texts are those of the caller.
fn joined(mut first: RewrittenSuite, second: RewrittenSuite) -> RewrittenSuite {
    first.notes.extend(second.notes);
    first.copied.extend(second.copied);
    first.files.extend(second.files);
    first.refusal = first.refusal.or(second.refusal);
    first
}

/// Rewrites the documents of one test file.
struct Rewriter<'t> {
    files: &'t dyn Files,
    test: &'t str,
    moved: &'t [Moved],
    policies: &'t [(String, Replaced)],
    now: Option<Timestamp>,
}

impl Rewriter<'_> {
    /// Rewrites a document; `None` if nothing in it changes. `before` are the documents before it.
    fn document(&self, text: &str, before: Option<&RewrittenSuite>) -> io::Result<Option<RewrittenSuite>> {
        let suites = self.suites(text, Vec::new());
        let [suite] = suites.as_slice() else {
            return self.part(text, &suites, &Mocks::default(), before);
        };
        let mut best: Option<RewrittenSuite> = None;
        let mut tried: Vec<Group> = Vec::new();
        for reading in [Reading::Texts, Reading::Values] {
            let groups = mocks::groups(suite, reading);
            if tried == groups {
                break;
            }
            let rewritten = self.groups(text, &suites, &groups, before)?;
            let Some(rewritten) = rewritten else { return Ok(None) };
            if rewritten.refusal.is_none() {
                return Ok(Some(rewritten));
            }
            best = best.or(Some(rewritten));
            tried = groups;
        }
        Ok(best)
    }

    /// Rewrites a document as one for each group of rows.
    fn groups(
        &self,
        text: &str,
        suites: &[Suite],
        groups: &[Group],
        before: Option<&RewrittenSuite>,
    ) -> io::Result<Option<RewrittenSuite>> {
        let mut whole: Option<RewrittenSuite> = None;
        let mut texts: Vec<String> = Vec::new();
        for (index, group) in groups.iter().enumerate() {
            let mut own = if groups.len() == 1 {
                text.to_owned()
            } else {
                with_rows(text, &|row| group.rows.contains(&row), index + 1).map_err(io::Error::other)?
            };
            let globals = group.mocks.globals();
            if !globals.is_empty() && suites.iter().all(|suite| suite.global_context.is_empty()) {
                let entries = Document::from(&serde_json::json!({"globalContextEntries": globals}));
                own = format!("{}\n{}", own.trim_end(), entries.root().to_yaml());
            }
            let known = match (before, &whole) {
                (Some(before), Some(whole)) => Some(joined(before.clone(), whole.clone())),
                (known, whole) => known.or(whole.as_ref()).cloned(),
            };
            let changed = (own != text).then(|| self.suites(&own, Vec::new()));
            let suites = changed.as_deref().unwrap_or(suites);
            let Some(mut rewritten) = self.part(&own, suites, &group.mocks, known.as_ref())? else {
                return Ok(None);
            };
            let separator = if index > 0 && !rewritten.text.starts_with("---") {
                "---\n"
            } else {
                ""
            };
            texts.push(format!("{separator}{}", std::mem::take(&mut rewritten.text)));
            add(&mut whole, rewritten);
        }
        Ok(with_text(whole, &texts))
    }

    fn part(
        &self,
        text: &str,
        suites: &[Suite],
        mocks: &Mocks,
        before: Option<&RewrittenSuite>,
    ) -> io::Result<Option<RewrittenSuite>> {
        let (files, test) = (self.files, self.test);
        let paths: Vec<(String, Vec<String>)> = suites
            .iter()
            .flat_map(|suite| new_paths(suite, test, self.moved))
            .collect();
        // Another policy of the same name may be elsewhere.
        let policies: Vec<Replaced> = self
            .policies
            .iter()
            .filter(|(file, _)| suites.iter().any(|suite| reads(suite, test, file)))
            .map(|(_, replaced)| replaced.clone())
            .collect();
        let discovery = Discovery::kubernetes();
        let types = |name: &str, kind: Option<&str>| types(suites, &discovery, name, kind);
        let operations = |policy: &str, resource: &str| operation(suites, policy, resource);
        let stays = self
            .moved
            .iter()
            .any(|moved| moved.stays && suites.iter().any(|suite| reads(suite, test, &clean(&moved.old))));
        let settings = self.settings();
        let original: LazyCell<Vec<Case>, _> =
            LazyCell::new(|| suites.iter().flat_map(|suite| run(suite, &settings).cases).collect());
        let attempt = |reports: &dyn Fn(&str, &str) -> Option<Reported>| {
            let suite = kyvtest_migrate::Suite {
                policies: &policies,
                paths: &paths,
                types: &types,
                operations: &operations,
                reports,
                excluded: &|policy, rule, resource| excluded(suites, &original, policy, rule, resource),
                stays,
                context: CONTEXT,
            };
            rewrite_suite(text, &suite).map_err(io::Error::other)
        };
        let Some(first) = attempt(&|_, _| None)? else {
            return Ok(None);
        };
        let copied = copied(files, test, &first)?;
        let mut companions: Vec<Companion> = Vec::new();
        if !copied.is_empty() {
            companions.push(companions::context(&copied, &[]));
        }
        let mut cases = self.run(&first.text, &companions)?;
        let candidates = [
            companions::user(suites),
            companions::namespaces(files, test, suites)?,
            looked_up(suites, mocks, copied),
        ];
        for candidate in candidates.into_iter().flatten() {
            if errors(&cases) == 0 {
                break;
            }
            let mut more = companions.clone();
            more.retain(|companion| companion.field != candidate.field);
            more.push(candidate);
            let with = self.run(&first.text, &more)?;
            if errors(&with) < errors(&cases) {
                (companions, cases) = (more, with);
            }
        }
        let reported = reported(&cases);
        let second = attempt(&|policy, resource| reported.get(&(policy.to_owned(), resource.to_owned())).copied())?;
        let Some(mut second) = second else { return Ok(None) };
        let after = if second.text == first.text {
            cases
        } else {
            self.run(&second.text, &companions)?
        };
        second.refusal = refusal(&original, &after, unreplaced(suites, mocks));
        let taken = before.map(|before| before.files.as_slice()).unwrap_or_default();
        for companion in companions {
            let name = free_name(&companion, taken);
            second.text = with_file(&second.text, companion.field, &name).map_err(io::Error::other)?;
            if !taken.iter().any(|(known, _)| *known == name) {
                second.files.push((name, companion.text));
            }
        }
        Ok(Some(second))
    }

    fn settings(&self) -> Settings {
        Settings {
            now: self.now,
            ..Settings::new(true)
        }
    }

    /// Reads a text in place of the test file.
    fn suites(&self, text: &str, files: Vec<(String, String)>) -> Vec<Suite> {
        let mut over = Memory::default();
        for (path, text) in files {
            over.add(&path, text);
        }
        over.add(self.test, text);
        let overlay = Overlay {
            under: self.files,
            over,
        };
        load(&overlay, self.test, &Options::default())
    }

    /// Runs a rewritten text with the new policies and companions in memory.
    fn run(&self, text: &str, companions: &[Companion]) -> io::Result<Vec<Case>> {
        let mut text = text.to_owned();
        let mut files = Vec::new();
        for companion in companions {
            text = with_file(&text, companion.field, companion.name).map_err(io::Error::other)?;
            files.push((
                format!("{}/{}", folder(self.test), companion.name),
                companion.text.clone(),
            ));
        }
        for moved in self.moved {
            let new = moved.new.iter();
            files.extend(new.map(|(name, text)| (format!("{}/{name}", folder(&moved.old)), text.clone())));
        }
        let suites = self.suites(&text, files);
        let settings = self.settings();
        Ok(suites.iter().flat_map(|suite| run(suite, &settings).cases).collect())
    }
}

/// A name that no other file has, unless it has the same text.
fn free_name(companion: &Companion, taken: &[(String, String)]) -> String {
    let (stem, extension) = companion.name.rsplit_once('.').unwrap_or((companion.name, ""));
    let names = (1..).map(|number| match number {
        1 => companion.name.to_owned(),
        _ => format!("{stem}-{number}.{extension}"),
    });
    let is_free = |name: &String| {
        taken
            .iter()
            .all(|(known, text)| known != name || *text == companion.text)
    };
    names.into_iter().find(is_free).unwrap_or_default()
}

/// The objects that generate rules copy.
fn copied(files: &dyn Files, test: &str, suite: &RewrittenSuite) -> io::Result<Vec<Json>> {
    let mut resources = Vec::new();
    for path in &suite.copied {
        let path = clean(&format!("{}/{path}", folder(test)));
        let text = files.read(&path)?;
        let stream = yaml::read(&text, yaml::Mode::Lax, &yaml::Limits::default());
        let trees = stream.documents().iter().filter_map(|document| document.tree().ok());
        let objects = trees.map(|tree| Document::from(tree.root()).root().to_serde());
        resources.extend(objects.filter(Json::is_object));
    }
    Ok(resources)
}

/// The file with everything that new policies look up; `None` if values replace nothing of it, or the suite has such a file.
fn looked_up(suites: &[Suite], mocks: &Mocks, mut objects: Vec<Json>) -> Option<Companion> {
    let described = |suite: &Suite| suite.cluster.is_some() || suite.context.is_some();
    if suites.iter().any(described) {
        return None;
    }
    objects.extend(mocks.objects().ok()?);
    let images = mocks.images();
    (!objects.is_empty() || !images.is_empty()).then(|| companions::context(&objects, &images))
}

/// Why a test file may not describe what a new policy looks up.
fn unreplaced(suites: &[Suite], mocks: &Mocks) -> String {
    let calls = |suite: &Suite| {
        suite
            .test
            .as_ref()
            .is_some_and(|test| !test.api_call_responses.is_empty())
    };
    match mocks.objects() {
        Err(resource) => {
            format!("`kyverno test` does not know the kind of `{resource}`, so no `context` file can describe it")
        }
        Ok(_) if suites.iter().any(calls) => {
            "`kyverno test` gives a new policy `body` and `statusCode` of an `apiCallResponses` entry, a \
                                              cluster the members of the body"
                .to_owned()
        }
        Ok(_) => {
            "values of variables do not replace what the policy looks up; describe it in a `context` file".to_owned()
        }
    }
}

/// Why a rewritten test file is not written; `None` if its rows pass as those of the original do. Rows of an original that does not
/// pass are compared no further, unless a new policy cannot be evaluated.
fn refusal(before: &[Case], after: &[Case], unreplaced: impl std::fmt::Display) -> Option<Refusal> {
    let message = |case: &Case| {
        let answer = case.kyverno.as_ref().filter(|answer| answer.status == Status::Error)?;
        case.outcome.fails().then(|| answer.message.clone())
    };
    if let Some((case, message)) = after.iter().find_map(|case| Some((case, message(case)?))) {
        let reason = format!(
            "policy `{}` cannot be evaluated on `{}` ({message}): {unreplaced}",
            case.policy, case.resource.name
        );
        return Some(Refusal::new(RefusalCode::Context, reason));
    }
    if before.iter().any(|case| case.outcome.fails()) {
        return None;
    }
    if after.is_empty() && !before.is_empty() {
        let reason = "no new policy reports on the resources of any row";
        return Some(Refusal::new(RefusalCode::Match, reason));
    }
    let case = after.iter().find(|case| case.outcome.fails())?;
    let reason = format!(
        "policy `{}` decides `{}` differently: {}",
        case.policy, case.resource.name, case.reason
    );
    Some(Refusal::new(RefusalCode::Refuted, reason))
}

/// Whether `kyverno test` passes a row on a resource only because the rule is not about it.
fn excluded(suites: &[Suite], cases: &[Case], policy: &str, rule: Option<&str>, resource: &str) -> bool {
    let [suite] = suites else { return false };
    let own = resource.rsplit('/').next().unwrap_or(resource);
    let mut own = cases.iter().filter(|case| {
        let row = case.row.and_then(|row| suite.rows().get(row));
        let same_rule = row.is_some_and(|row| row.rule.as_ref().map(|rule| rule.value.as_str()) == rule);
        same_rule && case.policy == policy && case.resource.name == own
    });
    own.next().is_some_and(|first| first.reason == EXCLUDED) && own.all(|case| case.reason == EXCLUDED)
}

fn errors(cases: &[Case]) -> usize {
    let is_error = |case: &&Case| {
        case.kyverno
            .as_ref()
            .is_some_and(|answer| answer.status == Status::Error)
    };
    cases.iter().filter(is_error).count()
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or(".", |(folder, _)| folder)
}

/// Whether a suite names a file of policies, or a folder that holds it.
fn reads(suite: &Suite, test: &str, file: &str) -> bool {
    let Some(document) = &suite.test else { return false };
    document.policies.iter().any(|path| {
        let full = clean(&format!("{}/{}", folder(test), path.value));
        let rest = file.strip_prefix(full.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// The changed paths of a suite, as written.
fn new_paths(suite: &Suite, test: &str, moved: &[Moved]) -> Vec<(String, Vec<String>)> {
    let Some(document) = &suite.test else { return Vec::new() };
    let written = document.policies.iter().chain(&document.exceptions);
    let changed = written.filter_map(|path| {
        let full = clean(&format!("{}/{}", folder(test), path.value));
        let moved = moved.iter().find(|moved| clean(&moved.old) == full)?;
        let own = path.value.rsplit_once('/').map(|(folder, _)| folder);
        let beside = |name: &String| own.map_or_else(|| name.clone(), |folder| format!("{folder}/{name}"));
        let stays = moved.stays.then(|| path.value.clone());
        let new = moved.new.iter().map(|(name, _)| beside(name));
        Some((path.value.clone(), stays.into_iter().chain(new).collect()))
    });
    changed.collect()
}

/// The types of the resources that a row names.
fn types(suites: &[Suite], discovery: &Discovery, name: &str, kind: Option<&str>) -> Vec<ResourceType> {
    let own = name.rsplit('/').next().unwrap_or(name);
    let kind = kind.map(|kind| kind.rsplit('/').next().unwrap_or(kind));
    let resources = suites.iter().flat_map(|suite| &suite.resources);
    let meant = resources
        .filter(|resource| (name.is_empty() || resource.name == own) && kind.is_none_or(|kind| resource.kind == kind));
    let found = meant.filter_map(|resource| {
        let served = discovery.by_object(&resource.api_version, &resource.kind)?;
        Some(ResourceType {
            group: served.group.clone(),
            resource: served.plural.clone(),
        })
    });
    found.collect()
}

/// The operation that the values of a suite give a resource.
fn operation(suites: &[Suite], policy: &str, resource: &str) -> Option<String> {
    let own = resource.rsplit('/').next().unwrap_or(resource);
    let policies = suites.iter().flat_map(|suite| &suite.values.policies);
    let policies = policies.filter(|values| values.name.value == policy);
    let resources = policies.flat_map(|values| &values.resources);
    let named = resources.filter(|values| values.name.value == own);
    let mut operations = named
        .flat_map(|values| &values.values)
        .filter(|(name, _)| name.value == "request.operation");
    let (_, value) = operations.next()?;
    value.value.root().as_str().map(str::to_owned)
}

/// The results of the new policies for the resources of the rows that name them.
fn reported(cases: &[Case]) -> BTreeMap<(String, String), Reported> {
    let mut reported = BTreeMap::new();
    for case in cases {
        let result = match (&case.kyverno, case.outcome) {
            (Some(answer), _) => match answer.status {
                Status::Pass => Reported::Pass,
                Status::Fail | Status::Warn => Reported::Fail,
                Status::Skip => Reported::Skip,
                Status::NoMatch => Reported::Nothing,
                _ => Reported::Error,
            },
            (None, Outcome::Fail | Outcome::Unmatched | Outcome::Skip | Outcome::Silent) => Reported::Nothing,
            (None, _) => continue,
        };
        let key = &case.resource;
        for name in [key.name.clone(), format!("{}/{}", key.namespace, key.name)] {
            reported.insert((case.policy.clone(), name), result);
        }
    }
    reported
}

#[cfg(test)]
mod tests;
