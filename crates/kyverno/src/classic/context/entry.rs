//! Context entries of a rule: variables, ConfigMaps, API calls, the global context, image registries.
//!
//! Upstream counterpart: `pkg/engine/context/loaders`, `pkg/engine/apicall`,
//! `pkg/engine/factories/contextloaderfactory.go`, and the command line's `store/contextloader.go`. Deviation: values
//! in error messages are printed as Go's `%v` prints them, regardless of their type.

use std::sync::Arc;

use super::{Context, loader::Load};
use crate::classic::variables::{substitute_all, substitute_string};
use kyvtest_go_compat::value::Data;
use kyvtest_jmespath::Expression;

/// A context entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The name under which its data is found.
    pub name: String,
    /// Where its data comes from.
    pub source: Arc<Source>,
}

/// Where the data of a context entry comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// A value, or an expression on the context.
    Variable {
        value: Option<Data>,
        /// An expression on the value, or on the context if there is no value.
        jmes_path: String,
        /// What to take where that has no value.
        default: Option<Data>,
    },
    /// A ConfigMap.
    ConfigMap { name: String, namespace: String },
    ApiCall {
        /// The call as the policy writes it.
        call: Data,
        /// An expression on the response.
        jmes_path: String,
        /// What to take where the call fails.
        default: Option<Data>,
    },
    /// An entry of the global context: `name`, `jmesPath`.
    GlobalReference(Data),
    ImageRegistry {
        /// The image.
        reference: String,
        /// An expression on what is known of it.
        jmes_path: String,
    },
}

impl Entry {
    /// Reads an entry as a policy writes it; `None` where it has no source.
    pub(crate) fn read(entry: &Data) -> Option<Self> {
        let text = |data: &Data, key: &str| {
            let text = data.get(key).and_then(Data::as_str);
            text.unwrap_or_default().to_owned()
        };
        let given = |data: &Data, key: &str| data.get(key).filter(|value| !value.is_null()).cloned();
        // In the order in which upstream looks.
        let source = if let Some(config_map) = given(entry, "configMap") {
            Source::ConfigMap {
                name: text(&config_map, "name"),
                namespace: text(&config_map, "namespace"),
            }
        } else if let Some(call) = given(entry, "apiCall") {
            Source::ApiCall {
                jmes_path: text(&call, "jmesPath"),
                default: given(&call, "default"),
                call,
            }
        } else if let Some(reference) = given(entry, "globalReference") {
            Source::GlobalReference(reference)
        } else if let Some(registry) = given(entry, "imageRegistry") {
            Source::ImageRegistry {
                reference: text(&registry, "reference"),
                jmes_path: text(&registry, "jmesPath"),
            }
        } else {
            let variable = given(entry, "variable")?;
            Source::Variable {
                value: given(&variable, "value"),
                jmes_path: text(&variable, "jmesPath"),
                default: given(&variable, "default"),
            }
        };
        Some(Self {
            name: text(entry, "name"),
            source: Arc::new(source),
        })
    }

    /// Reads the `context` of a rule; entries without a source are left out.
    pub fn read_all(entries: &Data) -> Vec<Self> {
        let entries = entries.as_list().unwrap_or_default();
        entries.iter().filter_map(Self::read).collect()
    }
}

impl Context<'_> {
    /// Registers entries. Most are loaded when a query first names them; API calls that the suite mocks are loaded at
    /// once.
    ///
    /// # Errors
    /// Where a value of the suite or an API call fails.
    pub fn load_entries(&mut self, entries: &[Entry]) -> Result<(), String> {
        let outside = self.outside;
        for (key, value) in outside.rule_values() {
            self.add_variable(key, value)?;
        }
        for entry in entries {
            let Entry { name, source } = entry;
            let known = match &**source {
                Source::ApiCall { call, .. } => {
                    if outside.has_api_calls() && self.mocked_call(name, call)? {
                        continue;
                    }
                    outside.cluster_call("", "").is_some()
                }
                Source::ConfigMap { .. } => outside.config_map("", "").is_some(),
                Source::GlobalReference(_) => outside.global_entry("", "").is_some(),
                Source::ImageRegistry { .. } => outside.image("").is_some(),
                Source::Variable { .. } => true,
            };
            if known {
                self.add_loader(name, Load::Entry(source.clone(), None));
            }
        }
        Ok(())
    }

    /// Answers an API call from the suite; whether it could.
    fn mocked_call(&mut self, name: &str, call: &Data) -> Result<bool, String> {
        let call = substitute_all(call, self)
            .map_err(|error| format!("failed to substitute variables in apiCall context entry \"{name}\": {error}"))?;
        let (method, url) = target(&call);
        let response = if url.is_empty() {
            None
        } else {
            self.outside.api_call(method, url)
        };
        let Some((status, mut body)) = response else {
            return Ok(false);
        };
        if !(200..300).contains(&status) {
            return Err(format!(
                "HTTP {status} from apiCall mock for context entry \"{name}\" (v1 apiCall treats non-2xx as failure)"
            ));
        }
        if let Some(path) = call
            .get("jmesPath")
            .and_then(Data::as_str)
            .filter(|path| !path.is_empty())
        {
            body = self.apply(path, &body.with_doubles()).map_err(|error| {
                format!("failed to apply JMESPath \"{path}\" for context entry \"{name}\": {error}")
            })?;
        }
        self.add_entry(name, &body)?;
        Ok(true)
    }

    fn apply(&self, path: &str, value: &Data) -> Result<Data, String> {
        let expression = Expression::parse(path).map_err(|error| error.to_string())?;
        self.search(&expression, value).map_err(|error| error.to_string())
    }

    /// Loads an entry into the document. Returns the fetched value, so that the caller need not fetch it again.
    pub(super) fn load_source(&mut self, name: &str, source: &Source, before: Option<&Data>) -> Result<Data, String> {
        match source {
            Source::Variable {
                value,
                jmes_path,
                default,
            } => self.load_variable(name, value.as_ref(), jmes_path, default.as_ref()),
            Source::ConfigMap {
                name: config_map,
                namespace,
            } => {
                let data = match before {
                    Some(data) => data.clone(),
                    None => self
                        .config_map(name, config_map, namespace)
                        .map_err(|error| format!("failed to retrieve config map for context entry {name}: {error}"))?,
                };
                self.add_entry(name, &data)
                    .map_err(|error| format!("failed to add config map for context entry {name}: {error}"))?;
                Ok(data)
            }
            Source::ApiCall {
                call,
                jmes_path,
                default,
            } => self.load_call(name, call, jmes_path, default.as_ref(), before),
            Source::GlobalReference(reference) => {
                let data = self
                    .global_entry(name, reference)
                    .map_err(|error| format!("failed to marshal APICall data for context entry {name}: {error}"))?;
                self.add_entry(name, &data).map_err(|error| {
                    format!("failed to add resource cache results for context entry {name}: {error}")
                })?;
                Ok(data)
            }
            Source::ImageRegistry { reference, jmes_path } => {
                let data = match before {
                    Some(data) => data.clone(),
                    None => self.image(name, reference, jmes_path)?,
                };
                self.add_entry(name, &data)?;
                Ok(data)
            }
        }
    }

    fn load_variable(
        &mut self,
        name: &str,
        value: Option<&Data>,
        jmes_path: &str,
        default: Option<&Data>,
    ) -> Result<Data, String> {
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            format!("failed to substitute variables in context entry {name} {what}: {error}")
        };
        let mut path = None;
        if !jmes_path.is_empty() {
            let substituted = substitute_string(jmes_path, self).map_err(|error| failed(jmes_path, &error))?;
            match substituted {
                Data::String(text) => path = Some(text).filter(|text| !text.is_empty()),
                _ => return Err(format!("jmespath value must be a string {name} {jmes_path}: <nil>")),
            }
        }
        let mut output = Data::Null;
        if let Some(default) = default {
            output = substitute_all(&default.with_doubles(), self).map_err(|error| failed(&default.to_go(), &error))?;
        }
        let has_default = !output.is_null();
        if let Some(value) = value {
            let made = substitute_all(&value.with_doubles(), self).map_err(|error| failed(&value.to_go(), &error))?;
            match &path {
                None => output = made,
                Some(path) => {
                    let result = Expression::parse(path)
                        .map_err(|error| format!("failed to compile JMESPath: {path}, error: {error}"))
                        .and_then(|expression| self.search(&expression, &made).map_err(|error| error.to_string()));
                    match result {
                        Ok(result) => output = result,
                        Err(_) if has_default => {}
                        Err(error) => {
                            return Err(format!("failed to apply jmespath {path} to variable <nil>: {error}"));
                        }
                    }
                }
            }
        } else if let Some(path) = &path {
            match self.query(path) {
                Ok(Data::Null) => {}
                Ok(result) => output = result,
                Err(_) if has_default => {}
                Err(error) => return Err(format!("failed to apply jmespath {path} to variable <nil>: {error}")),
            }
        }
        if output.is_null() {
            return Err(format!(
                "failed to add context entry for variable {name} since it evaluated to nil"
            ));
        }
        self.replace_entry(name, &output)?;
        Ok(output)
    }

    fn config_map(&mut self, entry: &str, name: &str, namespace: &str) -> Result<Data, String> {
        let mut text = |what: &str, text: &str| {
            let failed = |error: &dyn std::fmt::Display| {
                format!("failed to substitute variables in context {entry} configMap.{what} {text}: {error}")
            };
            match substitute_string(text, self) {
                Ok(Data::String(text)) => Ok(text.to_string()),
                Ok(other) => Err(failed(&format_args!("expected string, got {}", other.go_type()))),
                Err(error) => Err(failed(&error)),
            }
        };
        let found_name = text("name", name)?;
        let mut found_namespace = text("namespace", namespace)?;
        let own = self.outside.policy_namespace();
        if found_namespace.is_empty() {
            if own.is_empty() { "default" } else { own }.clone_into(&mut found_namespace);
        }
        if !own.is_empty() && found_namespace != own {
            return Err(format!(
                "context entry {entry}: configMap namespace \"{found_namespace}\" is different from policy namespace \"{own}\""
            ));
        }
        match self.outside.config_map(&found_namespace, &found_name) {
            Some(Ok(object)) => {
                let part = |key: &str| (Arc::from(key), object.get(key).cloned().unwrap_or_default());
                Ok(Data::from_iter([part("data"), part("metadata")]))
            }
            Some(Err(error)) => Err(format!(
                "failed to get configmap {found_namespace}/{found_name} : {error}"
            )),
            None => Err("a ConfigmapResolver is required".to_owned()),
        }
    }

    fn load_call(
        &mut self,
        name: &str,
        call: &Data,
        jmes_path: &str,
        default: Option<&Data>,
        before: Option<&Data>,
    ) -> Result<Data, String> {
        let fetched = match before {
            Some(data) => data.clone(),
            None => self
                .fetch(name, call, default)
                .map_err(|error| format!("failed to fetch data for APICall: {error}"))?,
        };
        self.store_call(name, &fetched, jmes_path, default)
            .map_err(|error| format!("failed to store data for APICall: {error}"))?;
        Ok(fetched)
    }

    fn fetch(&mut self, name: &str, call: &Data, default: Option<&Data>) -> Result<Data, String> {
        let written = call.get("urlPath").and_then(Data::as_str).unwrap_or_default();
        let call = substitute_all(call, self)
            .map_err(|error| format!("failed to substitute variables in context entry {name} {written}: {error}"))?;
        let own = self.outside.policy_namespace();
        if !own.is_empty() {
            let path = call.get("urlPath").and_then(Data::as_str).unwrap_or_default();
            check_namespace(path, own)?;
        }
        let (method, url) = target(&call);
        match self.outside.cluster_call(method, url) {
            Some(Ok(response)) => Ok(response),
            Some(Err(error)) => default.cloned().ok_or(error),
            None => default.cloned().ok_or_else(|| format!("no response to {method} {url}")),
        }
    }

    fn store_call(
        &mut self,
        name: &str,
        fetched: &Data,
        jmes_path: &str,
        default: Option<&Data>,
    ) -> Result<(), String> {
        let failed = |error| format!("failed to add resource data to context entry {name}: {error}");
        if jmes_path.is_empty() || default == Some(fetched) {
            return self.add_entry(name, fetched).map_err(failed);
        }
        let path = match substitute_string(jmes_path, self) {
            Ok(Data::String(path)) => path,
            Ok(other) => {
                let kind = other.go_type();
                return Err(format!("interface conversion: interface {{}} is {kind}, not string"));
            }
            Err(error) => {
                return Err(format!(
                    "failed to substitute variables in context entry {name} JMESPath {jmes_path}: {error}"
                ));
            }
        };
        let response = self
            .apply(&path, &fetched.with_doubles())
            .map_err(|error| format!("failed to apply JMESPath {path} for context entry {name}: {error}"))?;
        self.add_entry(name, &response)
            .map_err(|error| format!("failed to add APICall results for context entry {name}: {error}"))
    }

    fn global_entry(&mut self, name: &str, reference: &Data) -> Result<Data, String> {
        let reference = substitute_all(reference, self).map_err(|error| error.to_string())?;
        let text = |key: &str| reference.get(key).and_then(Data::as_str).unwrap_or_default();
        let mut parts = text("name").split('.');
        let (entry, projection) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let data = match self.outside.global_entry(entry, projection) {
            Some(data) => data?.with_doubles(),
            None => return Err(format!("failed to fetch entry key={entry}")),
        };
        match text("jmesPath") {
            "" => Ok(data),
            path => self
                .apply(path, &data)
                .map_err(|error| format!("failed to apply JMESPath {path} for context entry {name}: {error}")),
        }
    }

    fn image(&mut self, name: &str, reference: &str, jmes_path: &str) -> Result<Data, String> {
        let mut text = |failed: &str, text: &str| match substitute_string(text, self) {
            Ok(Data::String(text)) => Ok(text.to_string()),
            Ok(other) => Err(format!(
                "invalid image reference {}, image reference must be a string",
                other.to_go()
            )),
            Err(error) => Err(format!(
                "{failed} to substitute variables in context entry {name} {text}: {error}"
            )),
        };
        // The missing letter is upstream's.
        let found = text("ailed", reference)?;
        let path = text("failed", jmes_path)?;
        let data = match self.outside.image(&found) {
            Some(data) => data?.with_doubles(),
            None => return Err(format!("no registry to ask for the image {found}")),
        };
        if path.is_empty() {
            return Ok(data);
        }
        self.apply(&path, &data).map_err(|error| {
            format!("failed to apply JMESPath ({jmes_path}) results to context entry {name}, error: {error}")
        })
    }
}

/// The method and the address of a call.
fn target(call: &Data) -> (&str, &str) {
    let method = call
        .get("method")
        .and_then(Data::as_str)
        .filter(|method| !method.is_empty());
    let service = call.get("service").filter(|service| !service.is_null());
    let url = match service {
        Some(service) => service.get("url"),
        None => call.get("urlPath"),
    };
    (method.unwrap_or("GET"), url.and_then(Data::as_str).unwrap_or_default())
}

/// A namespaced policy may only call paths of its own namespace.
fn check_namespace(path: &str, own: &str) -> Result<(), String> {
    let path = kyvtest_go_compat::text::path::clean(path);
    let rest = path.strip_prefix("/apis/").or_else(|| path.strip_prefix("/api/"));
    let namespace = rest
        .and_then(|rest| rest.split_once("/namespaces/"))
        .map(|(_, rest)| rest.split('/').next().unwrap_or_default());
    match namespace {
        Some(namespace) if namespace == own => Ok(()),
        Some(namespace) if !namespace.is_empty() => Err(format!(
            "path {path} refers to namespace {namespace}, which is different from the policy namespace {own}"
        )),
        _ => Err(format!(
            "path {path} does not contain a namespace segment, which is required for namespaced policies"
        )),
    }
}

/// The parts of a key with dots: one record of CSV with the dot as separator.
///
/// Upstream counterpart: Go's `encoding/csv`.
pub(super) fn fields(key: &str) -> Result<Vec<String>, String> {
    let line = key.lines().find(|line| !line.is_empty()).ok_or("EOF")?;
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let column = |rest: &str| line.len() - rest.len() + 1;
        let Some(mut quoted) = rest.strip_prefix('"') else {
            let end = rest.find('.').unwrap_or(rest.len());
            if let Some(at) = rest[..end].find('"') {
                let column = column(rest) + at;
                return Err(format!(
                    "parse error on line 1, column {column}: bare \" in non-quoted field"
                ));
            }
            fields.push(rest[..end].to_owned());
            match rest.get(end + 1..) {
                Some(after) => rest = after,
                None => return Ok(fields),
            }
            continue;
        };
        let mut field = String::new();
        loop {
            let bad = "extraneous or missing \" in quoted-field";
            let Some(end) = quoted.find('"') else {
                let column = line.len() + 1;
                return Err(format!("parse error on line 1, column {column}: {bad}"));
            };
            field.push_str(&quoted[..end]);
            quoted = &quoted[end + 1..];
            if let Some(after) = quoted.strip_prefix('"') {
                field.push('"');
                quoted = after;
            } else if let Some(after) = quoted.strip_prefix('.') {
                fields.push(field);
                rest = after;
                break;
            } else if quoted.is_empty() {
                fields.push(field);
                return Ok(fields);
            } else {
                let column = column(quoted) - 1;
                return Err(format!("parse error on line 1, column {column}: {bad}"));
            }
        }
    }
}
