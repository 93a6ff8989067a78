//! Mutate rules: preconditions, and what the patches make of the object.
//!
//! Upstream counterpart: `pkg/engine/mutate/mutation.go` and `pkg/engine/mutate/patch/strategicPreprocessing.go`, by way of
//! `kyvtest_kyverno::classic` and `kyvtest_patch`. Anchors are resolved against the object before the patch; what they decide
//! becomes conditions.
//!
//! Known limits: several variables in one text, operators in conditions on maps, anchors on lists, elements with conditions and additions, loops that
//! patch anything but their own elements.

mod loops;

use std::{collections::BTreeSet, sync::Arc};

use kyvtest_go_compat::value::Document;
use kyvtest_model::policy::Rule;
use kyvtest_patch::json6902;
use kyvtest_pattern::{Anchor, AnchorKind};
use serde_json::{Map, Value as Json};

use super::{
    condition::Conditions,
    context::{Entries, value_of},
    json,
    query::Context,
    scalar::satisfies,
};
use crate::{
    body::{
        changed::{Entry, Piece},
        document::{Element, Operation, Patch, Patched, PathStep, apply_operations, merge_strategic, pointer},
        formula::{Arena, Formula, Place},
        request::Request,
        shape::{Inner, Kind},
        text::Predicate,
        value::{Edit, Part, Result, Sym, Value, Words, unsupported},
    },
    language::Base,
};

/// What a rule that matches does.
#[derive(Debug, Clone)]
pub(in crate::body) struct Mutated {
    /// When the rule changes the object.
    pub(in crate::body) applies: Formula,
    /// When the rule is an error.
    pub(in crate::body) error: Formula,
    /// The object after the rule, if it applies and does not fail.
    pub(in crate::body) object: Value,
}

/// Evaluates a mutate rule that matches on an object, which is that of the request or what rules before made of it. Variables
/// and conditions read the request.
pub(in crate::body) fn mutated(
    arena: &mut Arena,
    rule: &Rule,
    request: &Request<'_>,
    object: &Value,
) -> Result<Mutated> {
    let Some(mutate) = &rule.mutate else {
        return unsupported("a rule that does not mutate");
    };
    let mutate = json(Some(mutate));
    if !mutate["targets"].is_null() {
        return unsupported("a rule with targets");
    }
    let context = Context {
        request,
        element: None,
        bound: Vec::new(),
        entries: Entries::default().with(&json(rule.context.as_ref()), None)?,
    };
    let preconditions = json(rule.preconditions.as_ref());
    let (met, unknown) = if preconditions.is_null() {
        (Formula::TRUE, Formula::FALSE)
    } else {
        let truth = Conditions::read(&preconditions).evaluate(arena, &context)?;
        (truth.yes, truth.error(arena))
    };
    let kind = &request.seen.object_kind;
    let kind = (kind.api_version(), kind.kind.clone());
    let mut reader = Reader {
        arena,
        context: &context,
        kind: (&kind.0, &kind.1),
        condition: Formula::TRUE,
        element: None,
        in_list: false,
        errors: Vec::new(),
    };
    let patched = match mutate["foreach"].as_array() {
        Some(blocks) => reader.blocks(blocks, object.clone())?,
        None => {
            // Variables are replaced in the whole rule.
            let source = rule.source.document().root().to_serde();
            reader.variables(&source)?;
            reader.once(&mutate, object)?
        }
    };
    let errors = reader.errors;
    let failed = arena.or(errors.into_iter().chain([patched.error]));
    let failed = arena.and([met, failed]);
    Ok(Mutated {
        applies: met,
        error: arena.or([unknown, failed]),
        object: patched.object,
    })
}

/// Reads the patches of a rule.
struct Reader<'a, 'x, 'r, 'c> {
    arena: &'a mut Arena,
    context: &'x Context<'r, 'c>,
    kind: (&'x str, &'x str),
    /// The conditions of the patch as a whole.
    condition: Formula,
    /// The loop around: its list, and the element.
    element: Option<(Place, Place)>,
    /// Whether a list of constant elements is around: there, texts that look like anchors are some.
    in_list: bool,
    /// When a variable has no value.
    errors: Vec<Formula>,
}

impl Reader<'_, '_, '_, '_> {
    fn once(&mut self, patches: &Json, object: &Value) -> Result<Patched> {
        let merge = &patches["patchStrategicMerge"];
        if !merge.is_null() {
            return self.strategic(merge, object);
        }
        match patches["patchesJson6902"].as_str() {
            Some(text) if !text.is_empty() => {
                let operations = self.operations(text)?;
                let operations: Vec<(Part, Operation)> = operations
                    .into_iter()
                    .map(|operation| (Part::One(Formula::TRUE, Value(Vec::new())), operation))
                    .collect();
                apply_operations(self.arena, object, &operations, true)
            }
            _ => unsupported("a rule without a patch"),
        }
    }

    fn strategic(&mut self, merge: &Json, object: &Value) -> Result<Patched> {
        let Some(entries) = merge.as_object() else {
            return unsupported("a patch that is not a map");
        };
        let resource = Entry::of(object.clone());
        let patch = self.map(entries, &resource)?;
        let mut patched = merge_strategic(self.arena, object, &patch, self.kind)?;
        let condition = std::mem::replace(&mut self.condition, Formula::TRUE);
        patched.error = self.arena.and([condition, patched.error]);
        patched.object = self.arena.either(condition, &patched.object, object);
        Ok(patched)
    }

    /// Adds the errors of all variables of a tree.
    fn variables(&mut self, tree: &Json) -> Result<()> {
        match tree {
            Json::String(text) if is_variable(text) => {
                for (_, variable) in pieces(text)?.0 {
                    let found = value_of(self.arena, self.context, &variable)?;
                    self.errors.push(found.failed);
                }
                Ok(())
            }
            Json::Array(items) => items.iter().try_for_each(|item| self.variables(item)),
            Json::Object(entries) => entries.iter().try_for_each(|(key, value)| {
                if is_variable(key) {
                    return unsupported("a variable in a key");
                }
                self.variables(value)
            }),
            _ => Ok(()),
        }
    }

    /// A map of a patch, resolved against the map that is there.
    fn map(&mut self, entries: &Map<String, Json>, resource: &Entry) -> Result<Patch> {
        let mut made: Vec<(Arc<str>, Formula, Patch)> = Vec::new();
        let plain = |written| Anchor::parse(written).map_or(written, |anchor| anchor.key);
        let keys: BTreeSet<&str> = entries.keys().map(|written| plain(written.as_str())).collect();
        if keys.len() < entries.len() {
            return unsupported("a key of a patch with and without an anchor");
        }
        for (written, value) in entries {
            if is_variable(written) || written.starts_with('$') {
                return unsupported("a variable or a directive in a key of a patch");
            }
            let (kind, key) = match Anchor::parse(written) {
                None => (None, written.as_str()),
                Some(anchor) => (Some(anchor.kind), anchor.key),
            };
            // Only anchors look at what is there.
            let own = if kind.is_some() || has_anchor(value, &|_| true) {
                self.field(resource, key)?
            } else {
                Entry::absent()
            };
            match kind {
                None => made.push((Arc::from(key), Formula::TRUE, self.tree(value, &own)?)),
                Some(AnchorKind::AddIfNotPresent) => {
                    if has_anchor(value, &|kind| kind != AnchorKind::AddIfNotPresent) {
                        return unsupported("a condition inside of an addition");
                    }
                    let absent = self.arena.not(own.present);
                    made.push((Arc::from(key), absent, self.tree(value, &Entry::absent())?));
                }
                Some(AnchorKind::Condition | AnchorKind::Global) => {
                    let holds = self.holds(&own, value)?;
                    self.condition = self.arena.and([self.condition, holds]);
                }
                Some(_) => return unsupported("an anchor that patches do not have"),
            }
        }
        Ok(Patch::Map(made))
    }

    /// The field of what may be a map.
    fn field(&mut self, resource: &Entry, key: &str) -> Result<Entry> {
        if resource.present == Formula::FALSE {
            return Ok(Entry::absent());
        }
        let (mut present, mut cases) = (Vec::new(), Vec::new());
        for (guard, sym) in &resource.value.0 {
            let is_map = match sym {
                Sym::At(place) => self.arena.is_kind(*place, Kind::Map),
                _ => Formula::TRUE,
            };
            let Some(entry) = self.arena.entry_of(sym, key) else {
                return unsupported("anchors of a value that is not a map");
            };
            present.push(self.arena.and([*guard, resource.present, is_map, entry.present]));
            for (inner, sym) in entry.value.0 {
                cases.push((self.arena.and([*guard, inner]), sym));
            }
        }
        Ok(Entry {
            present: self.arena.or(present),
            value: self.arena.value(cases),
        })
    }

    fn tree(&mut self, value: &Json, resource: &Entry) -> Result<Patch> {
        match value {
            Json::Object(entries) => self.map(entries, resource),
            Json::Array(items) => self.list(items, resource),
            Json::Null => Ok(Patch::Null),
            scalar => Ok(Patch::Scalar(self.scalar(scalar)?)),
        }
    }

    fn scalar(&mut self, value: &Json) -> Result<Value> {
        match value {
            Json::Bool(truth) => Ok(Value::bool(*truth)),
            Json::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(number), _) => Ok(Value::of(Sym::Int(number))),
                (_, Some(double)) if double.fract() == 0.0 && double.abs() < 9e15 => {
                    Ok(Value::of(Sym::Int(double as i64)))
                }
                _ => unsupported("a fraction in a patch"),
            },
            Json::String(text) if is_variable(text) => self.variable(text),
            Json::String(text) if Anchor::parse(text).is_some() => unsupported("a text that looks like an anchor"),
            Json::String(text) => Ok(Value::text(text)),
            _ => unsupported("a value of a patch"),
        }
    }

    /// The text that a variable yields, with the text around it.
    fn variable(&mut self, text: &str) -> Result<Value> {
        let (variables, after) = pieces(text)?;
        let [(before, variable)] = variables.as_slice() else {
            return unsupported("a text with several variables");
        };
        let is_alone = before.is_empty() && after.is_empty();
        let found = value_of(self.arena, self.context, variable)?;
        self.errors.push(found.failed);
        let mut cases = Vec::new();
        for (guard, sym) in found.value.0 {
            if self.in_list && !self.is_no_anchor(&sym, before) {
                return unsupported("a variable in a list of a patch, whose value may look like an anchor");
            }
            let sym = match sym {
                Sym::Text(text) => Sym::Text(Arc::from(format!("{before}{text}{after}"))),
                Sym::At(place) if is_text(self.arena, place) && is_alone => Sym::At(place),
                Sym::At(place) if is_text(self.arena, place) => {
                    let around = Edit::Between(Arc::from(before.as_str()), Arc::from(after.as_str()));
                    Sym::Words(place, Words(vec![around]))
                }
                Sym::Null if is_alone && !self.in_list => Sym::Null,
                Sym::Error => Sym::Error,
                _ => return unsupported("a variable of a patch that may be no text"),
            };
            cases.push((guard, sym));
        }
        Ok(self.arena.value(cases))
    }

    /// Whether a text cannot look like an anchor.
    fn is_no_anchor(&self, sym: &Sym, before: &str) -> bool {
        let starts_plainly = before.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit());
        starts_plainly
            || match sym {
                Sym::Text(text) => Anchor::parse(text).is_none() && before.is_empty(),
                Sym::At(place) => match &self.arena.shape(*place).inner {
                    Inner::Quantity => before.is_empty(),
                    Inner::Text(predicates) => {
                        let name = |predicate: &Predicate| {
                            matches!(
                                predicate,
                                Predicate::In(Base::LabelValue | Base::LabelKey | Base::DnsLabel | Base::Subdomain)
                            )
                        };
                        before.is_empty() && predicates.iter().any(name)
                    }
                    _ => false,
                },
                _ => *sym == Sym::Error,
            }
    }

    /// That a condition holds for a field.
    fn holds(&mut self, field: &Entry, pattern: &Json) -> Result<Formula> {
        if field.present == Formula::FALSE {
            return Ok(Formula::FALSE);
        }
        let Some(Sym::At(place)) = field.value.single().cloned() else {
            return unsupported("a condition of a patch on a made value");
        };
        let fits = match pattern {
            Json::Object(entries) => {
                let mut parts = vec![self.arena.is_kind(place, Kind::Map)];
                for (key, pattern) in entries {
                    if !is_plain_key(key) || !is_plain_pattern(pattern) {
                        return unsupported("a condition of a patch on a map, with operators, anchors or wildcards");
                    }
                    let own = self.field(field, key)?;
                    parts.push(self.holds(&own, pattern)?);
                }
                self.arena.and(parts)
            }
            Json::Array(_) | Json::Null => return unsupported("a condition of a patch on a list"),
            Json::String(text) if is_variable(text) => return unsupported("a variable in a condition of a patch"),
            scalar => {
                let kinds = self.arena.shape(place).kinds;
                if !kinds.is_single() || !kinds.has(Kind::Text) {
                    return unsupported("a condition of a patch on a value that may be no text");
                }
                let text = scalar.as_str().map_or_else(|| scalar.to_string(), str::to_owned);
                match text.as_str() {
                    "*" => Formula::TRUE,
                    "?*" => self.arena.text(place, Predicate::Length(1)),
                    _ => satisfies(self.arena, &Sym::At(place), &Json::String(text))?,
                }
            }
        };
        Ok(self.arena.and([field.present, fits]))
    }

    fn list(&mut self, items: &[Json], resource: &Entry) -> Result<Patch> {
        // Lists whose first element is not a map are taken as they are.
        let is_plain = !items.first().is_some_and(Json::is_object);
        let anchored: Vec<&Json> = items.iter().filter(|item| has_anchor(item, &|_| true)).collect();
        if is_plain && !anchored.is_empty() {
            return unsupported("anchors behind an element that is not a map");
        }
        match anchored.as_slice() {
            [] => {
                let mut made = Vec::new();
                let outer = std::mem::replace(&mut self.in_list, true);
                for item in items {
                    let patch = self.tree(item, &Entry::absent())?;
                    if patch == Patch::Null || matches!(&patch, Patch::Map(entries) if entries.is_empty()) {
                        return unsupported("an empty element in a list of a patch");
                    }
                    made.push(patch);
                }
                self.in_list = outer;
                Ok(Patch::List(made))
            }
            [only] if items.len() == 1 => match only.as_object() {
                Some(entries) if has_anchor(only, &|kind| kind == AnchorKind::Global) => {
                    self.some_element(entries, resource)?;
                    // Nothing is left of the list.
                    Ok(Patch::Map(Vec::new()))
                }
                Some(entries) => self.elements(entries, resource),
                None => unsupported("anchors in a list of lists"),
            },
            _ => unsupported("several elements of a list with anchors"),
        }
    }

    /// The list that elements of a patch are about, and one of its elements.
    fn elements_of(&mut self, resource: &Entry) -> Result<(Place, Place)> {
        let Some(Sym::At(list)) = resource.value.single() else {
            return unsupported("anchors in a list that differs from case to case");
        };
        let kinds = self.arena.shape(*list).kinds;
        if !kinds.is_single() || !kinds.has(Kind::List) {
            return unsupported("anchors in a list that may be something else");
        }
        match (self.element, self.arena.bound(*list, 0)) {
            (Some((own, bound)), _) if own == *list => Ok((*list, bound)),
            (_, Some(bound)) => Ok((*list, bound)),
            (_, None) => unsupported("a list without elements"),
        }
    }

    /// Global conditions in a list: one of the elements must meet them, if there is any.
    fn some_element(&mut self, entries: &Map<String, Json>, resource: &Entry) -> Result<()> {
        let is_condition = |kind| kind != AnchorKind::Global;
        if has_anchor(&Json::Object(entries.clone()), &is_condition) {
            return unsupported("other anchors beside a global condition in a list");
        }
        let (list, bound) = self.elements_of(resource)?;
        let outer = std::mem::replace(&mut self.condition, Formula::TRUE);
        self.map(entries, &Entry::of(Value::of(Sym::At(bound))))?;
        let meets = std::mem::replace(&mut self.condition, outer);
        let some = self.arena.at_least(list, bound, meets, 1);
        let any = self.arena.at_least(list, bound, Formula::TRUE, 1);
        let none = self.arena.not(any);
        let passed = self.arena.or([some, none]);
        self.condition = self.arena.and([self.condition, resource.present, passed]);
        Ok(())
    }

    /// An element of a patch for the elements that meet its conditions.
    fn elements(&mut self, entries: &Map<String, Json>, resource: &Entry) -> Result<Patch> {
        let (list, bound) = self.elements_of(resource)?;
        let of_loop = self.element.is_some_and(|(own, _)| own == list) && is_named_by_loop(entries);
        let outer = std::mem::replace(&mut self.condition, Formula::TRUE);
        let (mut conditions, mut rest) = (Map::new(), Map::new());
        for (written, value) in entries {
            match Anchor::parse(written).map(|anchor| (anchor.kind, anchor.key)) {
                Some((AnchorKind::Condition, "name")) if of_loop => {}
                Some((AnchorKind::Condition, _)) => {
                    conditions.insert(written.clone(), value.clone());
                }
                Some(_) => return unsupported("an addition at the top of an element, which the first element decides"),
                None => {
                    rest.insert(written.clone(), value.clone());
                }
            }
        }
        let element = Entry::of(Value::of(Sym::At(bound)));
        self.map(&conditions, &element)?;
        let applies = std::mem::replace(&mut self.condition, Formula::TRUE);
        // What is missing is decided by the first element that meets the conditions.
        let adds = has_anchor(&Json::Object(rest.clone()), &|kind| kind == AnchorKind::AddIfNotPresent);
        let decider = match (adds, of_loop) {
            (false, _) | (_, true) => bound,
            (true, false) if applies == Formula::TRUE => self.arena.item(list, 0),
            (true, false) => return unsupported("additions to elements that meet conditions"),
        };
        if adds && of_loop && applies != Formula::TRUE {
            return unsupported("additions to elements that meet conditions");
        }
        let patch = self.map(&rest, &Entry::of(Value::of(Sym::At(decider))))?;
        let further = std::mem::replace(&mut self.condition, outer);
        if further != Formula::TRUE {
            return unsupported("conditions inside of an element");
        }
        // An element without a name cannot be addressed.
        let name = self.arena.entry_at(bound, "name");
        let applies = self.arena.and([name.present, applies]);
        Ok(Patch::Elements(Box::new(Element {
            present: resource.present,
            list,
            bound,
            applies,
            of_loop,
            patch,
        })))
    }
}

/// Stands for the position of an element in the text of a patch.
const POSITION: &str = "positionofelement";

impl Reader<'_, '_, '_, '_> {
    /// The operations of the text of a patch.
    fn operations(&mut self, text: &str) -> Result<Vec<Operation>> {
        let mut plain = text.to_owned();
        if self.element.is_some() {
            if plain.contains(POSITION) {
                return unsupported("the text of a patch");
            }
            for variable in [
                "{{elementIndex}}",
                "{{ elementIndex }}",
                "{{elementIndex0}}",
                "{{ elementIndex0 }}",
            ] {
                plain = plain.replace(variable, POSITION);
            }
        }
        if is_variable(&plain) {
            return unsupported("a variable in the text of a JSON patch");
        }
        // Upstream's reader takes less than YAML is: a list in brackets must be JSON.
        let (Ok(_), Ok(document)) = (json6902::Patch::from_text(&plain), Document::from_yaml(&plain)) else {
            return unsupported("a JSON patch that cannot be read");
        };
        let Json::Array(items) = document.root().to_serde() else {
            return unsupported("a JSON patch that is not a list");
        };
        items.iter().map(|item| self.operation(item)).collect()
    }

    fn operation(&mut self, item: &Json) -> Result<Operation> {
        let (Some(op), Some(path)) = (item["op"].as_str(), item["path"].as_str()) else {
            return unsupported("an operation without `op` or `path`");
        };
        let mut pieces = Vec::new();
        for (number, text) in path.split(POSITION).enumerate() {
            if number > 0 {
                let Some((_, bound)) = self.element else {
                    return unsupported("a path");
                };
                pieces.push(Piece::Position(bound));
            }
            if !text.is_empty() {
                pieces.push(Piece::Text(Arc::from(text)));
            }
        }
        let value = match item.get("value") {
            Some(value) if value.to_string().contains(POSITION) => return unsupported("a position in a value"),
            Some(value) => Some(self.made(value)?),
            None => None,
        };
        let steps: Vec<PathStep> = pointer(&pieces)?;
        Operation::new(op, steps, value)
    }

    /// A constant of a JSON patch.
    fn made(&mut self, value: &Json) -> Result<Value> {
        match value {
            Json::Null => Ok(Value::of(Sym::Null)),
            Json::Array(items) => {
                let mut parts = Vec::new();
                for item in items {
                    parts.push(Part::One(Formula::TRUE, self.made(item)?));
                }
                Ok(Value::of(Sym::List(parts.into())))
            }
            Json::Object(entries) => {
                let mut made = Vec::new();
                for (key, value) in entries {
                    made.push((Arc::from(key.as_str()), self.made(value)?));
                }
                Ok(Value::of(Sym::Map(made.into())))
            }
            Json::String(text) => Ok(Value::text(text)),
            scalar => self.scalar(scalar),
        }
    }
}

/// Whether an element of a patch is named by the element of the loop.
fn is_named_by_loop(entries: &Map<String, Json>) -> bool {
    let name = entries.get("(name)").and_then(Json::as_str).unwrap_or_default();
    let inside = name.trim().strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
    inside.is_some_and(|inside| inside.trim() == "element.name")
}

/// The variables of a text, each with the text before it, and the text behind the last one.
fn pieces(text: &str) -> Result<(Vec<(String, Json)>, String)> {
    let mut variables = Vec::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("{{") {
        let Some((inside, behind)) = behind.split_once("}}") else {
            return unsupported("a variable without an end");
        };
        // A backslash escapes a variable; variables within variables are replaced first.
        if before.ends_with('\\') || inside.contains(['{', '}']) || behind.starts_with('}') {
            return unsupported("a variable within a variable, or an escaped one");
        }
        variables.push((before.to_owned(), Json::String(format!("{{{{{inside}}}}}"))));
        rest = behind;
    }
    if text.contains("$(") {
        return unsupported("a reference in a patch");
    }
    Ok((variables, rest.to_owned()))
}

fn is_plain_key(key: &str) -> bool {
    Anchor::parse(key).is_none() && !is_variable(key) && !key.contains(['*', '?'])
}

/// Whether a pattern inside of a condition is a word, or a map of words: it does not hold for a missing value, and if upstream
/// leaves it in the patch, it changes nothing where it holds.
fn is_plain_pattern(pattern: &Json) -> bool {
    match pattern {
        Json::Object(_) => true,
        Json::String(text) => {
            text.starts_with(|first: char| first.is_ascii_lowercase())
                && text
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '/'))
                && !matches!(text.as_str(), "true" | "false" | "null")
        }
        _ => false,
    }
}

fn is_text(arena: &Arena, place: Place) -> bool {
    let kinds = arena.shape(place).kinds;
    kinds.is_single() && kinds.has(Kind::Text)
}

fn is_variable(text: &str) -> bool {
    text.contains("{{") || text.contains("$(")
}

/// Whether a tree has an anchor of a kind, at any depth; a text that looks like one counts.
fn has_anchor(tree: &Json, wanted: &dyn Fn(AnchorKind) -> bool) -> bool {
    let is = |text: &str| Anchor::parse(text).is_some_and(|anchor| wanted(anchor.kind));
    match tree {
        Json::Object(entries) => entries.iter().any(|(key, value)| is(key) || has_anchor(value, wanted)),
        Json::Array(items) => items.iter().any(|item| has_anchor(item, wanted)),
        Json::String(text) => is(text),
        _ => false,
    }
}
