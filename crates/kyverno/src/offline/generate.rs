//! The stage of the generate rules: the objects that each policy generates, against a client of its own.
//!
//! Upstream counterpart: `handleGeneratePolicy` of `cmd/cli/kubectl-kyverno/processor/generate.go` and the generate part of
//! `ApplyPoliciesOnResource` (1.19). Objects are generated for every rule that answers, whatever its status, and one rule
//! that fails takes the objects of all rules of the policy with it.

use std::{cell::RefCell, sync::Arc};

use super::{
    case::CloneSource,
    client::FakeClient,
    observed::{Observed, PolicyResponse, RuleResult, RuleType},
    stages::{Stages, identity},
    values::GivenValues,
};
use crate::{
    classic::{
        context::{ApiPath, Outside},
        values::Values,
    },
    generate::{Checked, Client, ClientError, CompiledGeneration, GenerateError, GenerateRule, Generation, ObjectRef},
};
use kyvtest_cel::host::Host;
use kyvtest_go_compat::value::{Data, Document};
use kyvtest_model::policy::ClassicPolicy;

impl Stages<'_> {
    /// Evaluates the generate rules of all policies.
    ///
    /// # Errors
    /// What upstream panics about.
    pub(super) fn generate(
        &self,
        policies: &[&Arc<ClassicPolicy>],
        resource: &Document,
        observed: &mut Observed,
    ) -> Result<(), String> {
        for policy in policies {
            let Some(compiled) = CompiledGeneration::new(policy) else {
                continue;
            };
            let (request, values) = (self.request(resource), self.values(resource));
            let input = self.classic_input(&request, &values);
            let background = Background {
                values: &values,
                has_cluster: self.case.surroundings.cluster.is_some(),
                client: RefCell::new(None),
                panic: RefCell::new(None),
            };
            let first = compiled.outsides(&input, None, self.host);
            let values: Option<&dyn Values> = (!self.is_request()).then_some(&background);
            let second = compiled.outsides(&input, values, self.host);
            let mut generation = compiled.start(&input, &first, &second);
            // Without its Namespace among the objects, exceptions to rules about a namespaced object do not count.
            let namespace = if self.is_request() {
                self.world.namespace(&request.namespace).cloned()
            } else {
                self.given_namespace(&request.namespace)
            };
            let exceptions = if self.is_request() || request.namespace.is_empty() || namespace.is_some() {
                self.exceptions.as_slice()
            } else {
                &[]
            };
            let checked = generation.check(exceptions, namespace.as_ref());
            if checked.is_empty() {
                continue;
            }
            let generated = self.generate_all(&compiled, &mut generation, &checked, &background)?;
            let rules = checked
                .into_iter()
                .zip(generated)
                .map(|((_, response), generated)| RuleResult {
                    generated,
                    ..RuleResult::new(RuleType::Generation, response)
                });
            observed.responses.push(PolicyResponse::new(
                self.key.clone(),
                policy.kind.name(),
                identity(policy),
                rules.collect(),
            ));
        }
        Ok(())
    }

    /// The objects of each rule; none at all if one rule fails, which upstream only logs.
    fn generate_all(
        &self,
        compiled: &CompiledGeneration,
        generation: &mut Generation<'_>,
        checked: &[Checked],
        background: &Background<'_>,
    ) -> Result<Vec<Vec<Document>>, String> {
        let panics = |text: String| format!("`kyverno test` panics: {text}");
        let trigger = generation.trigger();
        let rules = checked.iter().filter_map(|(index, _)| compiled.rules().get(*index));
        let cloning = rules.filter(|rule| rule.clones() || rule.clone_list().is_some());
        let id = compiled.policy().id();
        // Every rule that clones adds the objects of its file.
        let copies = cloning.flat_map(|rule| {
            let own = |source: &&CloneSource| {
                let named = source.rule.as_ref();
                named.is_none_or(|(policy, name)| *policy == id && *name == rule.name)
            };
            let sources = self.case.clone_sources.iter().filter(own);
            sources.flat_map(|source| &source.objects)
        });
        let copies: Vec<&Document> = copies.map(|source| &*source.object).collect();
        let copies = copies.into_iter().map(Document::root);
        let kinds = compiled.rules().iter().filter_map(GenerateRule::clone_list);
        let kinds: Vec<String> = kinds.flat_map(|list| list.kinds).collect();
        let client = FakeClient::new(std::iter::once(trigger.root()).chain(copies), &kinds).map_err(panics)?;
        background.client.replace(Some(client));
        let mut generated = Vec::new();
        for (index, _) in checked {
            let applied = generation.apply(*index, &mut Shared(&background.client));
            if let Some(text) = background.panic.take() {
                return Err(panics(text));
            }
            match applied {
                Ok(objects) => generated.push(objects),
                Err(GenerateError::Panic(text)) => return Err(panics(text)),
                Err(_) => return Ok(vec![Vec::new(); checked.len()]),
            }
        }
        Ok(generated)
    }
}

/// The values of a test as the background controller of `kyverno test` has them: no ConfigMaps, and calls of the API go to
/// the private client.
struct Background<'v> {
    values: &'v GivenValues,
    has_cluster: bool,
    client: RefCell<Option<FakeClient>>,
    /// The text with which upstream panics while it loads the context.
    panic: RefCell<Option<String>>,
}

impl std::fmt::Debug for Background<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Background")
            .field("values", &self.values)
            .finish_non_exhaustive()
    }
}

impl Values for Background<'_> {
    fn variables(&self, policy: &str) -> Vec<(String, Data)> {
        self.values.variables(policy)
    }

    fn outside<'a>(
        &'a self,
        policy: &str,
        rule: &str,
        namespace: &'a str,
        host: &'a dyn Host,
    ) -> Box<dyn Outside + 'a> {
        Box::new(BackgroundOutside {
            first: self.values.outside(policy, rule, namespace, host),
            background: self,
        })
    }
}

struct BackgroundOutside<'a> {
    first: Box<dyn Outside + 'a>,
    background: &'a Background<'a>,
}

impl Outside for BackgroundOutside<'_> {
    fn rule_values(&self) -> &[(String, Data)] {
        self.first.rule_values()
    }

    fn has_api_calls(&self) -> bool {
        self.first.has_api_calls()
    }

    fn api_call(&self, method: &str, url: &str) -> Option<(u16, Data)> {
        self.first.api_call(method, url)
    }

    fn cluster_call(&self, method: &str, path: &str) -> Option<Result<Data, String>> {
        if !self.background.has_cluster {
            return None;
        }
        if method != "GET" {
            return Some(Err(format!("method {method} not supported for fake client")));
        }
        let Some(place) = ApiPath::parse_as_fake(path) else {
            return Some(Err(format!("failed to parse path: {path}")));
        };
        let client = self.background.client.borrow();
        let answer = client.as_ref()?.by_path(
            &place.api_version,
            &kind_of(place.resource),
            (place.namespace, place.name),
        );
        Some(answer.map_err(|error| {
            if let ClientError::Panic(text) = &error {
                self.background.panic.replace(Some(text.clone()));
            }
            error.text().to_owned()
        }))
    }

    fn global_entry(&self, name: &str, projection: &str) -> Option<Result<Data, String>> {
        self.first.global_entry(name, projection)
    }

    fn image(&self, reference: &str) -> Option<Result<Data, String>> {
        self.first.image(reference)
    }

    fn policy_namespace(&self) -> &str {
        self.first.policy_namespace()
    }

    fn host(&self) -> &dyn Host {
        self.first.host()
    }
}

/// The kind that the fake client takes a resource for (`inferKindFromResourceName`).
fn kind_of(resource: &str) -> String {
    if let Some(stem) = resource.strip_suffix("ies") {
        return format!("{stem}y");
    }
    let stem = resource.strip_suffix("es").or_else(|| resource.strip_suffix('s'));
    stem.unwrap_or(resource).to_owned()
}

/// The client that the rules of a policy share with their context.
struct Shared<'c>(&'c RefCell<Option<FakeClient>>);

impl Shared<'_> {
    fn with<T>(&self, call: impl FnOnce(&mut FakeClient) -> Result<T, ClientError>) -> Result<T, ClientError> {
        match self.0.borrow_mut().as_mut() {
            Some(client) => call(client),
            None => Err(ClientError::Other("there is no client".to_owned())),
        }
    }
}

impl Client for Shared<'_> {
    fn get(&self, object: &ObjectRef) -> Result<Data, ClientError> {
        self.with(|client| client.get(object))
    }

    fn list(&self, api_version: &str, kind: &str, namespace: &str, selector: &Data) -> Result<Vec<Data>, ClientError> {
        self.with(|client| client.list(api_version, kind, namespace, selector))
    }

    fn create(&mut self, at: &ObjectRef, object: Data) -> Result<(), ClientError> {
        self.with(|client| client.create(at, object))
    }

    fn update(&mut self, at: &ObjectRef, object: Data) -> Result<(), ClientError> {
        self.with(|client| client.update(at, object))
    }

    fn is_namespaced(&self, api_version: &str, kind: &str) -> bool {
        self.0
            .borrow()
            .as_ref()
            .is_none_or(|client| client.is_namespaced(api_version, kind))
    }
}
