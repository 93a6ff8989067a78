//! The suite's data for classic rules: values of variables, and context entries.
//!
//! Upstream counterpart: `cmd/cli/kubectl-kyverno/{variables/variables.go,store/contextloader.go}` (1.19).
//!
//! Known deviation: values are put into the context in order of their paths; upstream's order is random.

use std::collections::BTreeMap;

use crate::suite::{Named, RuleValues, Suite};
use kyvtest_cel::host::Host;
use kyvtest_go_compat::value::Data;
use kyvtest_kyverno::classic::{context::Outside, values::Values};
use kyvtest_model::kube::Operation;

/// The values for one resource.
#[derive(Debug)]
pub(crate) struct SuiteValues<'s> {
    pub(crate) suite: &'s Suite,
    pub(crate) resource: &'s str,
    pub(crate) operation: Operation,
}

fn data(values: &[Named]) -> impl Iterator<Item = (String, Data)> {
    let pair = |(key, value): &Named| (key.value.clone(), Data::from(value.value.root()));
    values.iter().map(pair)
}

/// The name without the namespace.
fn bare(policy: &str) -> &str {
    policy.rsplit('/').next().unwrap_or(policy)
}

impl SuiteValues<'_> {
    /// The values of a rule, by its own name or by those of its autogen variants.
    fn rule(&self, policy: &str, rule: &str) -> Option<&RuleValues> {
        let policies = &self.suite.values.policies;
        let rules = policies.iter().filter(|entry| entry.name.value == bare(policy));
        rules.flat_map(|entry| &entry.rules).find(|entry| {
            let name = entry.name.value.as_str();
            rule == name
                || rule.strip_prefix("autogen-") == Some(name)
                || rule.strip_prefix("autogen-cronjob-") == Some(name)
        })
    }
}

impl Values for SuiteValues<'_> {
    fn variables(&self, policy: &str) -> Vec<(String, Data)> {
        let values = &self.suite.values;
        let mut all: BTreeMap<String, Data> = data(&values.global_values).collect();
        for entry in values.policies.iter().filter(|entry| entry.name.value == bare(policy)) {
            let own = entry.resources.iter().filter(|entry| entry.name.value == self.resource);
            all.extend(own.flat_map(|entry| data(&entry.values)));
        }
        let operation = Data::from(self.operation.as_str());
        all.insert("request.operation".to_owned(), operation);
        all.into_iter().collect()
    }

    fn outside<'a>(
        &'a self,
        policy: &str,
        rule: &str,
        namespace: &'a str,
        host: &'a dyn Host,
    ) -> Box<dyn Outside + 'a> {
        let mut values: Vec<(String, Data)> = Vec::new();
        if let Some(rule) = self.rule(policy, rule) {
            values.extend(data(&rule.values));
            // Upstream never moves on to the next element.
            let first = rule.foreach_values.iter().filter_map(|(key, list)| {
                let value = list.first()?;
                Some((key.value.clone(), Data::from(value.value.root())))
            });
            values.extend(first);
        }
        Box::new(SuiteOutside {
            suite: self.suite,
            values,
            namespace,
            host,
        })
    }
}

/// Provides the context entries of a rule from a suite.
struct SuiteOutside<'a> {
    suite: &'a Suite,
    values: Vec<(String, Data)>,
    namespace: &'a str,
    host: &'a dyn Host,
}

impl SuiteOutside<'_> {
    fn has_cluster(&self) -> bool {
        self.suite.cluster.is_some()
    }
}

impl Outside for SuiteOutside<'_> {
    fn rule_values(&self) -> &[(String, Data)] {
        &self.values
    }

    fn has_api_calls(&self) -> bool {
        self.suite
            .test
            .as_ref()
            .is_some_and(|test| !test.api_call_responses.is_empty())
    }

    fn api_call(&self, method: &str, url: &str) -> Option<(u16, Data)> {
        let responses = &self.suite.test.as_ref()?.api_call_responses;
        let find = |key: &str| responses.iter().rev().find(|response| response.key() == key);
        let response = find(&format!("{method}:{url}")).or_else(|| find(url))?;
        Some((response.status_code, Data::from(response.body.value.root())))
    }

    fn cluster_call(&self, _method: &str, path: &str) -> Option<Result<Data, String>> {
        if !self.has_cluster() {
            return None;
        }
        let Some(target) = ApiPath::parse(path) else {
            return Some(Err("the server could not find the requested resource".to_owned()));
        };
        let answer = if target.name.is_empty() {
            self.host
                .resource_list(&target.api_version, target.resource, target.namespace, &[])
        } else {
            self.host
                .resource_get(&target.api_version, target.resource, target.namespace, target.name)
        };
        Some(match answer {
            Ok(document) if document.root().is_null() => {
                Err(format!("{} \"{}\" not found", target.resource, target.name))
            }
            Ok(document) => Ok(Data::from(document.root())),
            Err(error) => Err(error.into()),
        })
    }

    fn config_map(&self, namespace: &str, name: &str) -> Option<Result<Data, String>> {
        if !self.has_cluster() {
            return None;
        }
        Some(match self.host.resource_get("v1", "configmaps", namespace, name) {
            Ok(document) if document.root().is_null() => Err(format!("configmaps \"{name}\" not found")),
            Ok(document) => Ok(Data::from(document.root())),
            Err(error) => Err(error.into()),
        })
    }

    fn global_entry(&self, name: &str, projection: &str) -> Option<Result<Data, String>> {
        if self.suite.global_context.is_empty() {
            return None;
        }
        let answer = self.host.global_context(name, projection);
        Some(answer.map(|document| Data::from(document.root())).map_err(String::from))
    }

    fn image(&self, reference: &str) -> Option<Result<Data, String>> {
        let known = self
            .suite
            .context
            .as_ref()
            .is_some_and(|context| !context.images.is_empty());
        let answer = known.then(|| self.host.image_metadata(reference))?;
        Some(answer.map(|document| Data::from(document.root())).map_err(String::from))
    }

    fn policy_namespace(&self) -> &str {
        self.namespace
    }

    fn host(&self) -> &dyn Host {
        self.host
    }
}

/// A path of the API server. The name is empty for a list, and the namespace for a resource outside of namespaces.
pub(crate) struct ApiPath<'p> {
    pub(crate) api_version: String,
    pub(crate) resource: &'p str,
    pub(crate) namespace: &'p str,
    pub(crate) name: &'p str,
}

impl<'p> ApiPath<'p> {
    pub(crate) fn parse(path: &'p str) -> Option<Self> {
        let path = path.split('?').next().unwrap_or_default();
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (api_version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ((*version).to_owned(), rest),
            ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let (resource, name) = match rest {
            [resource] => (*resource, ""),
            [resource, name] => (*resource, *name),
            _ => return None,
        };
        Some(Self {
            api_version,
            resource,
            namespace,
            name,
        })
    }
}
