//! The second step: the objects that a rule creates.
//!
//! Upstream counterpart: `pkg/background/generate/{controller,generator,clone,data,source}.go` and
//! `pkg/background/common/labels.go` (1.19), error texts included.

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::{
    Client, ClientError, Generation, ObjectRef,
    object::{group_version, kind, labels, remove, set, set_labels, set_metadata, text},
    rule::{GenerateRule, Loop, Objects},
};
use crate::classic::{
    condition::Conditions, context::Entry, pattern, rule::Prelude, validator::evaluate, variables::substitute_all,
};
use kyvtest_go_compat::value::{Data, Document};
use kyvtest_model::policy::split_kind;

/// How many elements all loops of a rule together may have.
const ELEMENTS: usize = 20_000;

const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const PREFIX: &str = "generate.kyverno.io/";

/// Why a rule does not generate its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GenerateError {
    /// The message that Kyverno logs.
    Failed(String),
    /// An object that was to be updated vanished; Kyverno goes on as if the rule had nothing to generate.
    NotFound(String),
    /// Upstream panics, so there is no verdict.
    Panic(String),
}

impl fmt::Display for GenerateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(text) | Self::NotFound(text) | Self::Panic(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for GenerateError {}

impl From<ClientError> for GenerateError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::NotFound(text) => Self::NotFound(text),
            ClientError::AlreadyExists(text) | ClientError::Other(text) => Self::Failed(text),
            ClientError::Panic(text) => Self::Panic(text),
        }
    }
}

fn failed<T>(text: impl Into<String>) -> Result<T, GenerateError> {
    Err(GenerateError::Failed(text.into()))
}

/// What is to be done about a target.
enum Action {
    Skip,
    Create(Data),
    Update(Data),
}

/// The pattern of a rule after substitution.
struct Pattern {
    target: ObjectRef,
    data: Data,
    clone: (String, String),
    clone_list: (String, Vec<String>, Data),
}

impl Generation<'_> {
    /// Creates the objects of a rule, regardless of the result of [`Generation::check`], and returns the created ones
    /// as they are stored. Updated objects are not among them.
    ///
    /// # Errors
    /// See [`GenerateError`]; objects that were created before the error stay.
    pub(crate) fn apply(&mut self, index: usize, client: &mut dyn Client) -> Result<Vec<Document>, GenerateError> {
        let Some(rule) = self.policy.rules.get(index) else {
            return Ok(Vec::new());
        };
        self.context.set_outside(&*self.second[index]);
        if let Err(error) = self.context.load_entries(&rule.prelude.entries) {
            return failed(format!("failed to load rule level context: {error}"));
        }
        let mut targets = Vec::new();
        let generated = match &rule.body.objects {
            Objects::Once(pattern) => {
                let Prelude { entries, preconditions } = &rule.prelude;
                self.generate(rule, (entries, preconditions.as_ref(), pattern), client, &mut targets)
            }
            Objects::Foreach(loops) => self.foreach(rule, loops, client, &mut targets),
        };
        match generated {
            Ok(()) => {}
            Err(GenerateError::NotFound(_)) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        }
        let mut objects = Vec::new();
        for target in targets {
            // The object is read back, so that a missing one is an error of the rule.
            objects.push(client.get(&target)?.to_document());
        }
        Ok(objects)
    }

    /// Evaluates all loops of a rule. Elements that fail do not keep others from being created.
    fn foreach(
        &mut self,
        rule: &GenerateRule,
        loops: &[Loop],
        client: &mut dyn Client,
        targets: &mut Vec<ObjectRef>,
    ) -> Result<(), GenerateError> {
        let (mut errors, mut count) = (Vec::new(), 0);
        for (i, block) in loops.iter().enumerate() {
            let elements = match self.context.query(&block.list) {
                Ok(Data::List(elements)) => elements.to_vec(),
                Ok(single) => vec![single],
                Err(error) => {
                    errors.push(format!("failed to evaluate {i} foreach list: {error}"));
                    continue;
                }
            };
            count += elements.len();
            if count > ELEMENTS {
                return failed(format!("more than {ELEMENTS} elements"));
            }
            self.context.checkpoint();
            let failures = self.elements(rule, block, &elements, client, targets);
            self.context.restore();
            let failures = failures?;
            if !failures.is_empty() {
                let failures = failures.join("; ");
                errors.push(format!(
                    "failed to process {i} foreach in rule {}: {failures}",
                    rule.name
                ));
            }
        }
        if errors.is_empty() {
            Ok(())
        } else {
            failed(errors.join("; "))
        }
    }

    /// Evaluates a loop; returns what went wrong with single elements.
    fn elements(
        &mut self,
        rule: &GenerateRule,
        block: &Loop,
        elements: &[Data],
        client: &mut dyn Client,
        targets: &mut Vec<ObjectRef>,
    ) -> Result<Vec<String>, GenerateError> {
        let mut failures = Vec::new();
        for (index, element) in elements.iter().enumerate() {
            if element.is_null() {
                continue;
            }
            self.context.reset();
            self.context.add_element(&element.with_doubles(), index, 0);
            let conditions = block.preconditions.as_ref();
            let parts = (block.entries.as_slice(), conditions, &block.pattern);
            match self.generate(rule, parts, client, targets) {
                Ok(()) => {}
                Err(GenerateError::Panic(text)) => return Err(GenerateError::Panic(text)),
                Err(error) => failures.push(format!("failed to process {index} element: {error}")),
            }
        }
        Ok(failures)
    }

    /// Generates the objects of one pattern, and adds the created ones to `created`.
    fn generate(
        &mut self,
        rule: &GenerateRule,
        (entries, conditions, pattern): (&[Entry], Option<&Conditions>, &Data),
        client: &mut dyn Client,
        created: &mut Vec<ObjectRef>,
    ) -> Result<(), GenerateError> {
        match self.resolve(entries, conditions, pattern)? {
            Some(pattern) => self.write(rule, &pattern, client, created),
            None => Ok(()),
        }
    }

    /// Loads the context, evaluates the preconditions and substitutes the pattern. `None` if the preconditions do not hold.
    fn resolve(
        &mut self,
        entries: &[Entry],
        conditions: Option<&Conditions>,
        pattern: &Data,
    ) -> Result<Option<Pattern>, GenerateError> {
        if let Err(error) = self.context.load_entries(entries) {
            return failed(format!("failed to load context: {error}"));
        }
        if let Some(conditions) = conditions {
            match evaluate(conditions, &mut self.context) {
                Ok((true, _)) => {}
                Ok((false, _)) => return Ok(None),
                Err(error) => return failed(format!("failed to evaluate preconditions: {error}")),
            }
        }
        match substitute_all(pattern, &mut self.context) {
            Ok(pattern) => Pattern::read(&pattern).map(Some),
            Err(error) => failed(error.to_string()),
        }
    }

    fn write(
        &self,
        rule: &GenerateRule,
        pattern: &Pattern,
        client: &mut dyn Client,
        created: &mut Vec<ObjectRef>,
    ) -> Result<(), GenerateError> {
        // All actions are decided before the first object is written.
        for (target, action) in pattern.actions(rule.body.synchronize, client)? {
            let action = action?;
            let (object, is_new) = match action {
                Action::Skip => continue,
                Action::Create(object) => (self.labelled(rule, &target, object), true),
                Action::Update(object) => (self.labelled(rule, &target, object), false),
            };
            if is_new {
                let mut object = object;
                set_metadata(&mut object, "resourceVersion", "");
                match client.create(&target, object) {
                    Ok(()) | Err(ClientError::AlreadyExists(_)) => created.push(target),
                    Err(error) => return Err(error.into()),
                }
            } else if update(rule, &target, object, client)? {
                created.push(target);
            }
        }
        Ok(())
    }

    /// The object with the target's name and the labels of its origin.
    fn labelled(&self, rule: &GenerateRule, target: &ObjectRef, mut object: Data) -> Data {
        if object.is_null() {
            object = Data::Map(Arc::default());
        }
        set_metadata(&mut object, "name", &target.name);
        set_metadata(&mut object, "namespace", &target.namespace);
        if kind(&object).is_empty() {
            set(&mut object, &["kind"], target.kind.as_str().into());
        }
        set(&mut object, &["apiVersion"], target.api_version.as_str().into());
        let trigger = &self.new;
        let (group, version) = group_version(trigger);
        let mut all = labels(&object);
        let mut label = |key: &str, value: &str| {
            all.insert(Arc::from(format!("{PREFIX}{key}")), value.into());
        };
        label("policy-name", &self.policy.policy.metadata.name.value);
        label("policy-namespace", self.policy.namespace());
        label("rule-name", &rule.name);
        label("trigger-version", version);
        label("trigger-group", group);
        label("trigger-kind", kind(trigger));
        label("trigger-namespace", text(trigger, &["metadata", "namespace"]));
        label("trigger-uid", text(trigger, &["metadata", "uid"]));
        all.insert(Arc::from(MANAGED_BY), "kyverno".into());
        set_labels(&mut object, all);
        object
    }
}

/// Updates an existing object; `true` if it had to be created instead.
fn update(
    rule: &GenerateRule,
    target: &ObjectRef,
    mut object: Data,
    client: &mut dyn Client,
) -> Result<bool, GenerateError> {
    let existing = match client.get(target) {
        Ok(existing) => existing,
        Err(ClientError::Panic(text)) => return Err(GenerateError::Panic(text)),
        Err(_) => {
            client.create(target, object)?;
            return Ok(true);
        }
    };
    let mut place = target.clone();
    if place.api_version.is_empty() {
        text(&existing, &["apiVersion"]).clone_into(&mut place.api_version);
        set(&mut object, &["apiVersion"], place.api_version.as_str().into());
    }
    if place.namespace.is_empty() && client.is_namespaced(&place.api_version, &place.kind) {
        "default".clone_into(&mut place.namespace);
    }
    set_metadata(&mut object, "namespace", &place.namespace);
    // Upstream compares both as patterns and does not update an equal object.
    let same = |a: &Data, b: &Data| pattern::match_pattern(a, b).is_ok();
    if rule.body.synchronize && !(same(&existing, &object) && same(&object, &existing)) {
        client.update(&place, object)?;
    }
    Ok(false)
}

impl Pattern {
    /// Reads a substituted pattern into its types.
    fn read(pattern: &Data) -> Result<Self, GenerateError> {
        let text = |path: &[&str]| -> Result<String, GenerateError> {
            match pattern.at(path) {
                None | Some(Data::Null) => Ok(String::new()),
                Some(Data::String(text)) => Ok(text.to_string()),
                Some(other) => failed(format!(
                    "json: cannot unmarshal {} into Go struct field GeneratePattern.{} of type string",
                    json_type(other),
                    path.join(".")
                )),
            }
        };
        for key in ["clone", "cloneList"] {
            if let Some(part) = pattern
                .get(key)
                .filter(|part| part.as_map().is_none() && !part.is_null())
            {
                return failed(format!(
                    "json: cannot unmarshal {} into Go struct field GeneratePattern.{key}",
                    json_type(part)
                ));
            }
        }
        let kinds = match pattern.at(&["cloneList", "kinds"]) {
            None | Some(Data::Null) => Vec::new(),
            Some(Data::List(kinds)) => {
                let texts: Option<Vec<String>> = kinds.iter().map(|kind| kind.as_str().map(str::to_owned)).collect();
                match texts {
                    Some(texts) => texts,
                    None => return failed("json: cannot unmarshal a kind of cloneList into a string"),
                }
            }
            Some(_) => return failed("json: cannot unmarshal the kinds of cloneList into a list of strings"),
        };
        Ok(Self {
            target: ObjectRef {
                api_version: text(&["apiVersion"])?,
                kind: text(&["kind"])?,
                namespace: text(&["namespace"])?,
                name: text(&["name"])?,
            },
            data: pattern.get("data").cloned().unwrap_or_default(),
            clone: (text(&["clone", "namespace"])?, text(&["clone", "name"])?),
            clone_list: (
                text(&["cloneList", "namespace"])?,
                kinds,
                pattern.at(&["cloneList", "selector"]).cloned().unwrap_or_default(),
            ),
        })
    }

    /// The targets and what is to be done about each.
    fn actions(&self, synchronize: bool, client: &mut dyn Client) -> Result<Vec<Planned>, GenerateError> {
        let (namespace, kinds, selector) = &self.clone_list;
        if !self.clone.1.is_empty() {
            let source = ObjectRef {
                namespace: self.clone.0.clone(),
                name: self.clone.1.clone(),
                ..self.target.clone()
            };
            let action = clone(&self.target, &source, client);
            return Ok(vec![(self.target.clone(), action)]);
        }
        if kinds.is_empty() {
            return Ok(vec![(self.target.clone(), self.data(synchronize, client))]);
        }
        let mut actions = Vec::new();
        for written in kinds {
            let (api_version, kind) = split_kind(written);
            let sources = match client.list(&api_version, &kind, namespace, selector) {
                Ok(sources) => sources,
                Err(ClientError::Panic(text)) => return Err(GenerateError::Panic(text)),
                Err(error) => {
                    let error = error.text();
                    let text = format!(
                        "failed to list source resource for cloneList {api_version} {kind}/{namespace}. {error}"
                    );
                    actions.push((self.target.clone(), failed(text)));
                    continue;
                }
            };
            for source in &sources {
                let source = ObjectRef {
                    api_version: text(source, &["apiVersion"]).to_owned(),
                    kind: text(source, &["kind"]).to_owned(),
                    namespace: text(source, &["metadata", "namespace"]).to_owned(),
                    name: text(source, &["metadata", "name"]).to_owned(),
                };
                let target = ObjectRef {
                    namespace: self.target.namespace.clone(),
                    ..source.clone()
                };
                let action = if source.namespace == target.namespace {
                    Ok(Action::Skip)
                } else {
                    clone(&target, &source, client)
                };
                actions.push((target, action));
            }
        }
        Ok(actions)
    }

    fn data(&self, synchronize: bool, client: &dyn Client) -> Result<Action, GenerateError> {
        if !matches!(self.data, Data::Map(_) | Data::Null) {
            return failed(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                json_type(&self.data)
            ));
        }
        let existing = match client.get(&self.target) {
            Ok(existing) => existing,
            Err(ClientError::NotFound(_)) => return Ok(Action::Create(self.data.clone())),
            Err(error) => return Err(error.into()),
        };
        if !synchronize {
            return Ok(Action::Skip);
        }
        let mut object = self.data.clone();
        set_metadata(
            &mut object,
            "resourceVersion",
            text(&existing, &["metadata", "resourceVersion"]),
        );
        Ok(Action::Update(object))
    }
}

/// A target, and what is to be done about it.
type Planned = (ObjectRef, Result<Action, GenerateError>);

/// Copies an object.
fn clone(target: &ObjectRef, source: &ObjectRef, client: &mut dyn Client) -> Result<Action, GenerateError> {
    if source.namespace == target.namespace && source.name == target.name {
        return Ok(Action::Skip);
    }
    let named = format!(
        "{}/{}/{}/{}",
        target.api_version, target.kind, target.namespace, target.name
    );
    let mut found = match client.get(source) {
        Ok(found) => found,
        Err(ClientError::Panic(text)) => return Err(GenerateError::Panic(text)),
        Err(error) => return failed(format!("source resource {named} not found: {}", error.text())),
    };
    let mut all = labels(&found);
    all.insert(Arc::from(format!("{PREFIX}clone-source")), "".into());
    set_labels(&mut found, all);
    // Upstream only logs that the source cannot be labelled.
    let _ = client.update(source, found.clone());
    let mut copy = found;
    label_source(&mut copy);
    if text(&copy, &["metadata", "namespace"]) != target.namespace {
        remove(&mut copy, &["metadata", "ownerReferences"]);
    }
    const OWN: [&str; 5] = [
        "uid",
        "selfLink",
        "creationTimestamp",
        "managedFields",
        "resourceVersion",
    ];
    for field in OWN {
        remove(&mut copy, &["metadata", field]);
    }
    let existing = match client.get(target) {
        Ok(existing) => existing,
        Err(ClientError::NotFound(_)) => return Ok(Action::Create(copy)),
        Err(error) => return failed(format!("failed to get target resource {named}: {}", error.text())),
    };
    for field in OWN {
        if let Some(value) = existing.at(&["metadata", field]) {
            set(&mut copy, &["metadata", field], value.clone());
        }
    }
    Ok(if copy == existing {
        Action::Skip
    } else {
        Action::Update(copy)
    })
}

/// Notes in a copy where it comes from.
fn label_source(copy: &mut Data) {
    let (group, version) = group_version(copy);
    let from: BTreeMap<&str, &str> = [
        ("source-group", group),
        ("source-version", version),
        ("source-kind", kind(copy)),
        ("source-namespace", text(copy, &["metadata", "namespace"])),
        ("source-uid", text(copy, &["metadata", "uid"])),
    ]
    .into();
    let mut all = labels(copy);
    for (key, value) in from {
        all.insert(Arc::from(format!("{PREFIX}{key}")), value.into());
    }
    set_labels(copy, all);
}

/// The JSON type of a value, as Go's decoder names it.
fn json_type(value: &Data) -> &'static str {
    match value {
        Data::Null => "null",
        Data::Bool(_) => "bool",
        Data::String(_) => "string",
        Data::List(_) => "array",
        Data::Map(_) => "object",
        _ => "number",
    }
}
