//! The world outside as a suite describes it: mocks of calls, the global context, objects of a cluster, values of a rule.
//!
//! Upstream counterpart: the command line's `store/{contextloader,mock,gctx_resolve}.go` and, for objects of a cluster,
//! `pkg/clients/dclient/client.go` (`rawAbsPathForFakeClient`). Deviation: a list without a namespace has objects without one
//! only, and error texts name the resource instead of the kind.

use super::Outside;
use kyvtest_cel::host::{Host, HttpRequest};
use kyvtest_go_compat::value::Data;
use kyvtest_jmespath::{self as jmespath, Context};

/// Context entries from a host that holds the data of a suite.
pub struct SuiteSources<'h> {
    /// The mocks, the clock and the random numbers.
    pub host: &'h dyn Host,
    /// The suite's values for the rule: its `values`, and the first of each of its `foreachValues`.
    pub values: Vec<(String, Data)>,
    /// The policy's namespace; empty for a cluster-wide one.
    pub namespace: &'h str,
    pub given: Given,
}

/// Which parts of the world outside a suite describes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Given {
    /// A cluster, which ConfigMaps and calls of its API are looked up in.
    pub cluster: bool,
    /// Responses to API calls.
    pub api_calls: bool,
    /// Entries of the global context.
    pub global_context: bool,
    /// Mocks of image registries.
    pub images: bool,
    /// What answers calls of the cluster's API.
    pub api: Api,
}

/// What answers calls of a cluster's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Api {
    #[default]
    Server,
    /// The fake client of `kyverno test`, which only knows some paths.
    Fake,
}

impl std::fmt::Debug for SuiteSources<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SuiteSources")
            .field("values", &self.values)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl SuiteSources<'_> {
    fn object(&self, api_version: &str, resource: &str, namespace: &str, name: &str) -> Result<Data, String> {
        let object = self.host.resource_get(api_version, resource, namespace, name)?;
        match Data::from(object.root()) {
            Data::Null => Err(format!("{resource} \"{name}\" not found")),
            object => Ok(object),
        }
    }

    /// The object or the list that a path names.
    fn at(&self, path: &ApiPath<'_>) -> Result<Data, String> {
        let ApiPath {
            api_version,
            resource,
            namespace,
            name,
        } = path;
        if !name.is_empty() {
            return self.object(api_version, resource, namespace, name);
        }
        let list = self.host.resource_list(api_version, resource, namespace, &[])?;
        Ok(Data::from(list.root()))
    }

    fn serve(&self, path: &str) -> Result<Data, String> {
        match ApiPath::parse(path) {
            Some(path) => self.at(&path),
            None => Err("the server could not find the requested resource".to_owned()),
        }
    }

    fn fake(&self, method: &str, path: &str) -> Result<Data, String> {
        if method != "GET" {
            return Err(format!("method {method} not supported for fake client"));
        }
        let Some(parsed) = ApiPath::parse_as_fake(path) else {
            let path = path.strip_prefix('/').unwrap_or(path);
            return Err(format!("failed to parse path: {path}"));
        };
        self.at(&parsed).map_err(|error| {
            let ApiPath {
                api_version,
                resource,
                name,
                ..
            } = &parsed;
            if name.is_empty() {
                format!("failed to list resources {api_version}/{resource}: {error}")
            } else {
                format!("failed to get resource {api_version}/{resource}/{name}: {error}")
            }
        })
    }
}

impl Outside for SuiteSources<'_> {
    fn rule_values(&self) -> &[(String, Data)] {
        &self.values
    }

    fn has_api_calls(&self) -> bool {
        self.given.api_calls
    }

    fn api_call(&self, method: &str, url: &str) -> Option<(u16, Data)> {
        let request = HttpRequest {
            method,
            url,
            body: None,
            headers: Vec::new(),
        };
        let response = Data::from(self.host.http(&request).ok()?.root());
        let status = match response.get("statusCode") {
            Some(Data::Int(status)) => u16::try_from(*status).ok()?,
            _ => 200,
        };
        Some((status, response.get("body").cloned().unwrap_or(response)))
    }

    fn cluster_call(&self, method: &str, path: &str) -> Option<Result<Data, String>> {
        self.given.cluster.then(|| {
            let answer = match self.given.api {
                Api::Server => self.serve(path),
                Api::Fake => self.fake(method, path),
            };
            answer.map_err(|error| format!("failed to {method} resource with raw url: {path}: {error}"))
        })
    }

    fn config_map(&self, namespace: &str, name: &str) -> Option<Result<Data, String>> {
        self.given
            .cluster
            .then(|| self.object("v1", "configmaps", namespace, name))
    }

    fn global_entry(&self, name: &str, projection: &str) -> Option<Result<Data, String>> {
        self.given.global_context.then(|| {
            let entry = match self.host.global_context(name, "") {
                Ok(entry) => Data::from(entry.root()),
                Err(error) => return Err(error.into()),
            };
            match &entry {
                Data::Null => Err(format!("failed to fetch entry key={name}")),
                _ if projection.is_empty() => Ok(entry),
                Data::Map(entries) => entries
                    .get(projection)
                    .cloned()
                    .ok_or_else(|| format!("global context mock: projection \"{projection}\" not found")),
                _ => Err(format!(
                    "global context mock: projection \"{projection}\" requested but value is not an object"
                )),
            }
        })
    }

    fn image(&self, reference: &str) -> Option<Result<Data, String>> {
        self.given.images.then(|| {
            let metadata = self.host.image_metadata(reference);
            Ok(Data::from(metadata?.root()))
        })
    }

    fn policy_namespace(&self) -> &str {
        self.namespace
    }

    fn host(&self) -> &dyn Host {
        self.host
    }
}

/// What a path of the API names. The name is empty for a list, and the namespace for a resource outside of namespaces.
#[derive(Debug)]
pub struct ApiPath<'p> {
    pub api_version: String,
    pub resource: &'p str,
    pub namespace: &'p str,
    pub name: &'p str,
}

impl<'p> ApiPath<'p> {
    /// Reads a path as an API server does; `None` if it names neither an object nor a list.
    pub fn parse(path: &'p str) -> Option<Self> {
        let path = path.split('?').next().unwrap_or_default();
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (api_version, rest) = group_version(&parts)?;
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

    /// Reads a path as the fake client does.
    pub(crate) fn parse_as_fake(path: &'p str) -> Option<Self> {
        let parts: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
        let (api_version, rest) = group_version(&parts)?;
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            rest => ("", rest),
        };
        let resource = rest.first().copied().filter(|resource| !resource.is_empty())?;
        Some(Self {
            api_version,
            resource,
            namespace,
            name: rest.get(1).copied().unwrap_or_default(),
        })
    }
}

/// The group and version at the start of a path, and what follows.
fn group_version<'s, 'p>(parts: &'s [&'p str]) -> Option<(String, &'s [&'p str])> {
    match parts {
        ["api", version, rest @ ..] => Some(((*version).to_owned(), rest)),
        ["apis", group, version, rest @ ..] => Some((format!("{group}/{version}"), rest)),
        _ => None,
    }
}

/// The value of an entry of the global context that a suite describes: the data, seen through `fieldPath` and taken apart by
/// `projections`.
///
/// # Errors
/// Where an expression fails, in upstream's words.
pub fn global_value(name: &str, data: &Data, field_path: &str, projections: &[(&str, &str)]) -> Result<Data, String> {
    let search =
        |path: &str, data: &Data| jmespath::search(path, data, &Context::default()).map_err(|error| error.to_string());
    let mut root = data.with_doubles();
    if !field_path.is_empty() {
        root =
            search(field_path, &root).map_err(|error| format!("globalContextEntries \"{name}\" fieldPath: {error}"))?;
    }
    if projections.is_empty() {
        return Ok(root);
    }
    projections
        .iter()
        .map(|(projection, path)| match search(path, &root) {
            Ok(value) => Ok(((*projection).into(), value)),
            Err(error) => Err(format!(
                "globalContextEntries \"{name}\" projection \"{projection}\" path \"{path}\": {error}"
            )),
        })
        .collect()
}
