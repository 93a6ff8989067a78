//! `generate` rules as GeneratingPolicies.
//!
//! Upstream counterpart: `pkg/background/generate` on one side, `pkg/cel/policies/gpol` with the `generator` library on the other
//! (Kyverno 1.19). Data becomes a literal, a copy a lookup, a loop `all` over the list. Both sides run on the same triggers as
//! `kyverno test` evaluates them, and the objects that they generate must be equal up to Kyverno's own labels.

mod compare;

use kyvtest_go_compat::{
    diagnostic::FileId,
    value::{Data, Document},
    yaml::{Items, Node},
};
use kyvtest_model::{
    kube::{Discovery, Operation, parse_api_version},
    policy::{ClassicPolicy, PolicyKind, Rule, Subtree, place},
};
use kyvtest_prove::repair::RuleScope;
use serde_json::{Value as Json, json};

use crate::{
    Expr, Options, Refusal, RefusalCode,
    assemble::constraints,
    conditions::{self, Failure},
    context,
    draft::{plural, scopes_of},
    guess::Guess,
    kinds::{self, Translated, kinds_of, numbered, object, object_scope, webhook},
    layout::layout,
    literal,
    mutate::layout::layout as object_layout,
    names::{Lookup, Names, Variables},
    query::{self, Type, Value},
    settings,
};

/// Whether a rule belongs to this module.
pub(crate) fn is_about(rule: &Rule) -> bool {
    rule.generate.is_some()
}

fn refused<T>(code: RefusalCode, reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(code, reason))
}

/// Translates a rule, and compares both.
pub(crate) fn translate(
    policy: &ClassicPolicy,
    rule: &Rule,
    base: &str,
    (discovery, guesses): (&Discovery, &[Guess]),
    options: &Options,
) -> Result<Translated, Refusal> {
    settings::check(policy, rule, discovery)?;
    if policy.kind == PolicyKind::Policy {
        let reason = "a NamespacedGeneratingPolicy cannot be tested with Kyverno 1.19; write it by hand";
        return Err(Refusal::new(RefusalCode::Setting, reason).at(rule.span));
    }
    let only = kinds::alone(policy, rule, discovery)?;
    let operations = [Operation::Create, Operation::Update];
    let scopes = scopes_of(&only, rule, &operations, (discovery, guesses))?;
    let mut names = Vec::new();
    let mut objects = Vec::new();
    let mut notes: Vec<String> = Vec::new();
    for scope in &scopes {
        let name = numbered(base.to_owned(), &mut names);
        let spec = spec(policy, rule, scope, discovery, &mut notes).map_err(|refusal| refusal.at(rule.span))?;
        objects.push(object(policy, "GeneratingPolicy", &name, spec));
    }
    let requests = compare::rule(&only, rule, &objects, discovery, options).map_err(|refusal| refusal.at(rule.span))?;
    Ok(Translated {
        is_proven: false,
        variants: objects.iter().map(|_| vec![""]).collect(),
        objects,
        requests,
        reason: "generated objects are compared on triggers, not proven".to_owned(),
        notes,
    })
}

fn given(part: Option<&Subtree>) -> Option<&Subtree> {
    part.filter(|part| !part.node().is_null())
}

fn spec(
    policy: &ClassicPolicy,
    rule: &Rule,
    scope: &RuleScope,
    discovery: &Discovery,
    notes: &mut Vec<String>,
) -> Result<Json, Refusal> {
    let mut variables = Variables::default();
    let mut names = Names::new(object_scope(kinds_of(scope)), &mut variables);
    if let Some(entries) = given(rule.context.as_ref()) {
        context::context(entries, &mut names);
    }
    let precondition = match given(rule.preconditions.as_ref()) {
        Some(tree) => Some(conditions::conditions(tree, &mut names)?),
        None => None,
    };
    let Some(generate) = &rule.generate else {
        return refused(RefusalCode::RuleType, "the rule does not generate");
    };
    let mut entries = patterns(generate, discovery, &mut names)?;
    let mut conditions = Vec::new();
    if let Some(text) = &scope.condition {
        conditions.push(("match", text.clone()));
    }
    match precondition {
        // Match conditions do not see variables.
        Some(test) if test.as_str().contains("variables.") => {
            for entry in &mut entries {
                *entry = test.choose(entry, &Expr::bool(true));
            }
        }
        Some(test) => conditions.push(("preconditions", test.as_bool().as_str().to_owned())),
        None => {}
    }
    variables.retain_used(entries.iter().map(Expr::as_str));
    for lookup in variables.lookups() {
        let note = format!(
            "Kyverno's background controller needs permission to {} `{}` ({})",
            lookup.verb, lookup.resource, lookup.api_version
        );
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    let named = |name: &str, text: &str| json!({"name": name, "expression": layout(text)});
    let mut spec = json!({});
    webhook(policy, &mut spec);
    if let Some(spec) = spec.as_object_mut()
        && spec.remove("failurePolicy").is_some()
    {
        notes.push("`failurePolicy` is dropped; GeneratingPolicies run in the background".to_owned());
    }
    switches(policy, generate, &mut spec);
    spec["matchConstraints"] = constraints(&scope.constraints);
    if !conditions.is_empty() {
        spec["matchConditions"] = conditions.iter().map(|(name, text)| named(name, text)).collect();
    }
    let own: Vec<Json> = variables
        .iter()
        .map(|(name, expr)| named(name, expr.as_str()))
        .collect();
    if !own.is_empty() {
        spec["variables"] = Json::Array(own);
    }
    let entries = entries
        .iter()
        .map(|entry| json!({"expression": object_layout(entry.as_str())}));
    spec["generate"] = entries.collect();
    Ok(spec)
}

/// What happens after the first generation.
fn switches(policy: &ClassicPolicy, generate: &Subtree, spec: &mut Json) {
    let rule = generate.document().root().to_serde();
    let whole = policy.spec.source.document().root().to_serde();
    let on = |key: &str| rule[key].as_bool().or_else(|| whole[key].as_bool()) == Some(true);
    for key in ["synchronize", "generateExisting", "orphanDownstreamOnPolicyDelete"] {
        if on(key) {
            spec["evaluation"][key] = json!({"enabled": true});
        }
    }
}

/// What the rule generates, as expressions of type bool.
fn patterns(generate: &Subtree, discovery: &Discovery, names: &mut Names<'_>) -> Result<Vec<Expr>, Refusal> {
    let node = generate.node();
    let Some(loops) = node.get("foreach").filter(|part| !part.is_null()) else {
        let at = generate.span();
        return Ok(vec![pattern(node, discovery, names).map_err(|refusal| refusal.at(at))?]);
    };
    let mut all = Vec::new();
    for entry in loops.as_seq().into_iter().flat_map(Items::iter) {
        let at = place(generate.file(), entry.span());
        all.push(looped(entry, generate.file(), discovery, names).map_err(|refusal| refusal.at(at))?);
    }
    Ok(all)
}

/// An entry of `foreach`.
fn looped(entry: Node<'_>, file: FileId, discovery: &Discovery, names: &mut Names<'_>) -> Result<Expr, Refusal> {
    let text = entry.get("list").and_then(Node::as_str).unwrap_or_default();
    let list = query::query(text, names)?;
    if !list.ty.is_list() && list.ty != Type::Any {
        return refused(
            RefusalCode::Query,
            format!("`{text}` is not a list; Kyverno takes it for its only element"),
        );
    }
    list.read()?;
    let hint = list.hint.clone().filter(|hint| hint != "item");
    let (mut scope, variable) = names.scope.enter(hint.as_deref().unwrap_or("element"));
    let element = list.element(&variable);
    let index = Expr::primary(format!("{variable}Index"));
    for name in ["element", "element0"] {
        scope.bind_value(name, element.clone());
    }
    for name in ["elementIndex", "elementIndex0"] {
        scope.bind_value(name, Value::new(index.clone(), Type::Int));
    }
    let outer = std::mem::replace(&mut names.scope, scope);
    let body = body(entry, file, discovery, names);
    names.scope = outer;
    let body = body?;
    let over = if list.is_always_present() || list.fails_if_read() {
        list.plain().clone()
    } else {
        list.list_or_empty()
    };
    let mut args = vec![Expr::primary(variable), body];
    if args[1].as_str().contains(index.as_str()) {
        args.insert(0, index);
    }
    Ok(over.call("all", args))
}

fn body(entry: Node<'_>, file: FileId, discovery: &Discovery, names: &mut Names<'_>) -> Result<Expr, Refusal> {
    let part = |name: &str| entry.get(name).filter(|part| !part.is_null());
    if let Some(entries) = part("context") {
        context::bind(entries, file, names);
    }
    let test = match part("preconditions") {
        Some(node) => Some(conditions::block(node, file, Failure::Kept, names)?.expr),
        None => None,
    };
    let made = pattern(entry, discovery, names)?;
    Ok(match test {
        Some(test) => test.choose(&made, &Expr::bool(true)),
        None => made,
    })
}

/// One target: data, a copy, or copies of several objects.
fn pattern(node: Node<'_>, discovery: &Discovery, names: &mut Names<'_>) -> Result<Expr, Refusal> {
    let data = |name: &str| {
        let part = node.get(name).filter(|part| !part.is_null());
        part.map(|part| Data::from(Document::from(part).root()))
    };
    let namespace = match data("namespace") {
        Some(namespace) => text(&namespace, names)?,
        None => Expr::string(""),
    };
    let apply = |objects: Expr| Expr::primary("generator").call("Apply", [namespace.clone(), objects]);
    if let Some(clone) = data("clone").filter(|clone| clone.as_map().is_some_and(|clone| !clone.is_empty())) {
        return Ok(apply(Expr::list([copy(node, &clone, discovery, names)?])));
    }
    if let Some(list) = data("cloneList").filter(|list| list.as_map().is_some_and(|list| !list.is_empty())) {
        let copies = copies(&list, discovery, names)?;
        let source = list.get("namespace").cloned().unwrap_or_default();
        let source = text(&source, names)?;
        let elsewhere = namespace.relation("!=", &source);
        let mut all = copies.into_iter().map(&apply);
        let Some(first) = all.next() else {
            return refused(RefusalCode::Pattern, "`cloneList` without kinds");
        };
        let all = all.fold(first, |all, one| Expr::all([all, one]));
        return Ok(elsewhere.choose(&all, &Expr::bool(true)));
    }
    let mut whole = std::collections::BTreeMap::new();
    if let Some(Data::Map(entries)) = data("data") {
        whole.clone_from(&entries);
    } else if data("data").is_some() {
        return refused(RefusalCode::Pattern, "`data` is not a map");
    }
    let mut metadata = match whole.get("metadata") {
        Some(Data::Map(entries)) => (**entries).clone(),
        None | Some(Data::Null) => std::collections::BTreeMap::new(),
        Some(_) => return refused(RefusalCode::Pattern, "`metadata` is not a map"),
    };
    metadata.remove("namespace");
    for (key, part) in [("apiVersion", true), ("kind", !whole.contains_key("kind"))] {
        if let Some(value) = data(key).filter(|_| part) {
            whole.insert(key.into(), value);
        }
    }
    if let Some(name) = data("name") {
        metadata.insert("name".into(), name);
    }
    whole.insert("metadata".into(), Data::Map(metadata.into()));
    Ok(apply(Expr::list([literal::json(&Data::Map(whole.into()), names)?])))
}

fn text(data: &Data, names: &mut Names<'_>) -> Result<Expr, Refusal> {
    query::text_of(&literal::scalar(data, names)?)
}

fn resource_of(api_version: &str, kind: &str, discovery: &Discovery) -> String {
    let (group, version) = parse_api_version(api_version);
    let served = discovery.by_kind(group, version, kind);
    served.map_or_else(|| plural(kind), |served| served.plural.clone())
}

/// `clone`: the object that is copied.
fn copy(node: Node<'_>, clone: &Data, discovery: &Discovery, names: &mut Names<'_>) -> Result<Expr, Refusal> {
    let own = |name: &str| node.get(name).and_then(Node::as_str).unwrap_or_default();
    let (api_version, kind) = (own("apiVersion"), own("kind"));
    if api_version.contains("{{") || kind.contains("{{") {
        return refused(RefusalCode::Variable, "the kind of a copy is a variable");
    }
    let source = |name: &str| clone.get(name).cloned().unwrap_or_else(|| Data::from(""));
    if source("name") != Data::from(own("name")) {
        return refused(
            RefusalCode::Pattern,
            "the copy has another name than its source, which CEL cannot change; write the object with its fields",
        );
    }
    let namespace = text(&source("namespace"), names)?;
    let name = text(&source("name"), names)?;
    let resource = resource_of(api_version, kind, discovery);
    look_up(names, api_version, &resource, "get");
    let args = [Expr::string(api_version), Expr::string(&resource), namespace, name];
    Ok(Expr::primary("resource").call("Get", args))
}

fn look_up(names: &mut Names<'_>, api_version: &str, resource: &str, verb: &'static str) {
    names.variables.look_up(Lookup {
        api_version: api_version.to_owned(),
        resource: resource.to_owned(),
        verb,
    });
}

/// `cloneList`: the objects of each kind.
fn copies(list: &Data, discovery: &Discovery, names: &mut Names<'_>) -> Result<Vec<Expr>, Refusal> {
    let namespace = text(&list.get("namespace").cloned().unwrap_or_default(), names)?;
    let labels = list.at(&["selector", "matchLabels"]).and_then(Data::as_map);
    if list.at(&["selector", "matchExpressions"]).is_some() {
        return refused(
            RefusalCode::Pattern,
            "`cloneList` with `matchExpressions`; write the filter by hand",
        );
    }
    let item = Expr::primary("item");
    let mut tests = Vec::new();
    for (key, value) in labels.into_iter().flatten() {
        let label = item.field("metadata").optional("labels").optional(key);
        let wanted = text(value, names)?;
        tests.push(label.call("orValue", [Expr::string("")]).relation("==", &wanted));
    }
    let test = Expr::all(tests);
    let mut all = Vec::new();
    for kind in list.get("kinds").and_then(Data::as_list).into_iter().flatten() {
        let written = kind.as_str().unwrap_or_default();
        let Some((api_version, kind)) = written.rsplit_once('/') else {
            return refused(
                RefusalCode::Pattern,
                format!("`{written}` has no version; write it as in `v1/Secret`"),
            );
        };
        let resource = resource_of(api_version, kind, discovery);
        look_up(names, api_version, &resource, "list");
        let args = [Expr::string(api_version), Expr::string(&resource), namespace.clone()];
        let list = Expr::primary("resource").call("List", args);
        let items = Expr::function("dyn", [list]).field("items");
        all.push(if test.is_bool(true) {
            items
        } else {
            items.call("filter", [item.clone(), test.clone()])
        });
    }
    Ok(all)
}
