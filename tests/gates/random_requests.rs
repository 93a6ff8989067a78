//! Random requests around the constants of policies, asked of both concrete engines: a check of proofs that shares nothing
//! with the prover.

use std::sync::Arc;

use kyvtest::{
    convert::Exceptions,
    kube::{Discovery, NAME_LABEL, Namespace, Operation, Request, Resource, UserInfo, World},
    kyverno::config::Config,
    pair::Original,
    prove::{Layer, Options, Target, at_layer, replay::Engines, universe::with_unknown, witness::Situation},
    value::Document,
    vap::matching::is_exempt,
};
use serde_json::{Map, Value as Json, json};

/// How many requests are asked of a pair.
const REQUESTS: usize = 400;

/// A source of requests; the same constants give the same requests.
pub(crate) struct Random {
    seed: u64,
    words: Vec<String>,
    /// Whether kinds that no native policy sees are among them.
    pub(crate) exempt: bool,
}

fn is_name(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    text.len() < 60 && ends(text.chars().next()) && ends(text.chars().last()) && text.chars().all(inner)
}

fn is_value(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.len() < 60 && ends(text.chars().next()) && ends(text.chars().last()) && text.chars().all(inner)
}

fn is_key(text: &str) -> bool {
    let name = text.rsplit('/').next().unwrap_or_default();
    !name.is_empty() && is_value(name) && text.matches('/').count() < 2 && !text.starts_with('/')
}

impl Random {
    /// Requests around the words of these texts.
    pub(crate) fn new(texts: &[&str]) -> Self {
        let mut words: Vec<String> = vec!["x".to_owned(), "default".to_owned(), String::new()];
        for text in texts {
            for word in text.split(|c: char| c.is_whitespace() || "'\"[](){},".contains(c)) {
                let word = word.trim_matches(':').trim_end_matches('.');
                for variant in [
                    word.to_owned(),
                    format!("{word}x"),
                    word.chars().skip(1).collect(),
                    word.replace(['*', '?'], "q"),
                    word.replace('*', ""),
                ] {
                    if variant.len() < 60 && !words.contains(&variant) {
                        words.push(variant);
                    }
                }
            }
        }
        Self {
            seed: 0x5eed,
            words,
            exempt: true,
        }
    }

    fn next(&mut self, below: usize) -> usize {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) as usize % below.max(1)
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.next(n) == 0
    }

    fn word(&mut self, fits: fn(&str) -> bool) -> String {
        for _ in 0..200 {
            let at = self.next(self.words.len());
            if fits(&self.words[at]) {
                return self.words[at].clone();
            }
        }
        "x".to_owned()
    }

    fn map(&mut self) -> Map<String, Json> {
        let mut map = Map::new();
        for _ in 0..self.next(4) {
            map.insert(self.word(is_key), json!(self.word(is_value)));
        }
        map
    }

    fn object(&mut self, resource: &Resource, name: &str, namespace: &str) -> Json {
        let mut metadata = json!({"name": name});
        if resource.namespaced {
            metadata["namespace"] = json!(namespace);
        }
        let is_namespace = resource.object_kind.kind == "Namespace";
        let mut labels = self.map();
        if is_namespace {
            labels.insert(NAME_LABEL.to_owned(), json!(name));
        }
        for (key, map) in [("labels", labels), ("annotations", self.map())] {
            if !map.is_empty() {
                metadata[key] = Json::Object(map);
            }
        }
        let mut pod = json!({"containers": [{"name": "c", "image": "nginx"}]});
        if self.one_in(2) {
            pod["hostNetwork"] = json!(self.one_in(2));
        }
        let spec = match self.next(3) {
            0 => pod,
            1 => json!({"replicas": self.next(3), "template": {"spec": pod}}),
            _ => json!({"jobTemplate": {"spec": {"template": {"spec": pod}}}}),
        };
        json!({
            "apiVersion": resource.object_kind.api_version(),
            "kind": resource.object_kind.kind,
            "metadata": metadata,
            "spec": spec,
        })
    }

    /// A resource, most often one that the texts name.
    fn resource<'d>(&mut self, discovery: &'d Discovery) -> &'d Arc<Resource> {
        let all: Vec<&Arc<Resource>> = discovery
            .iter()
            .filter(|resource| resource.operations.iter().next().is_some())
            .filter(|resource| self.exempt || !is_exempt(resource))
            .collect();
        let named: Vec<&Arc<Resource>> = all
            .iter()
            .copied()
            .filter(|resource| self.words.contains(&resource.plural) || self.words.contains(&resource.kind))
            .collect();
        if named.is_empty() || self.one_in(5) {
            all[self.next(all.len())]
        } else {
            named[self.next(named.len())]
        }
    }

    fn situation(&mut self, discovery: &Discovery) -> Situation {
        let resource = Arc::clone(self.resource(discovery));
        let operations: Vec<Operation> = resource.operations.iter().collect();
        let operation = operations[self.next(operations.len())];
        let is_namespace = resource.object_kind.kind == "Namespace";
        let collection =
            operation == Operation::Delete && resource.subresource.is_empty() && !is_namespace && self.one_in(3);
        let name = self.word(is_name);
        let namespace = if is_namespace {
            name.clone()
        } else if resource.namespaced {
            self.word(is_name)
        } else {
            String::new()
        };
        let document = |json: Json| Document::from(&json);
        let (mut object, mut old_object) = (Document::null(), Document::null());
        let mut labels = self.map();
        labels.insert(NAME_LABEL.to_owned(), json!(namespace));
        if operation == Operation::Connect {
            let kind = &resource.object_kind;
            object = document(json!({"apiVersion": kind.api_version(), "kind": kind.kind}));
        } else {
            if operation != Operation::Create {
                let old = self.object(&resource, &name, &namespace);
                if is_namespace {
                    labels = old["metadata"]["labels"].as_object().cloned().unwrap_or_default();
                }
                old_object = document(old);
            }
            if operation != Operation::Delete {
                let mut new = self.object(&resource, &name, &namespace);
                if resource.subresource == "ephemeralcontainers" {
                    new["metadata"] = old_object.root().to_serde()["metadata"].clone();
                }
                object = document(new);
            }
        }
        let mut world = World::new();
        let pairs: Vec<(String, String)> = labels
            .iter()
            .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
            .collect();
        let is_stored = !is_namespace || operation != Operation::Create;
        if is_stored && !namespace.is_empty() {
            let entries = pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            world.add_namespace(Namespace::with_labels(&namespace, entries));
        }
        let any = |text: &str| !text.is_empty();
        let mut groups = vec!["system:authenticated".to_owned()];
        for _ in 0..self.next(3) {
            groups.push(self.word(any));
        }
        let request = Request {
            operation,
            name: if collection { String::new() } else { name },
            namespace,
            object,
            old_object,
            user: UserInfo {
                username: self.word(any),
                groups: Some(groups),
                ..UserInfo::default()
            },
            roles: Some(Vec::new()),
            cluster_roles: Some(Vec::new()),
            dry_run: false,
            options: Document::null(),
            collection,
            resource,
        };
        Situation {
            request,
            world,
            namespace_labels: pairs,
        }
    }
}

/// Asks both engines about random requests; an error tells the first on which they differ.
pub(crate) fn first_difference(
    random: &mut Random,
    original: &Original,
    exceptions: Exceptions<'_>,
    target: &Target,
    discovery: &Discovery,
    options: &Options<'_>,
) -> Result<(), String> {
    let universe = with_unknown(discovery);
    let layered = at_layer(original, options.layer);
    let config = if options.layer == Layer::Cluster {
        options.config.clone()
    } else {
        Config::bare()
    };
    let engines = Engines::new(&layered, exceptions, target, &config, options.layer, &universe)?;
    for number in 0..REQUESTS {
        let situation = random.situation(&universe);
        // A proof is about effects: an error that changes nothing is none.
        if let Some(found) = engines.replay(situation)
            && found.kyverno().effect != found.native().effect
        {
            let request = &found.situation().request;
            return Err(format!(
                "random request {number} differs ({}): {} {} {:?} {:?} {:?} {:?}; Kyverno {:?}, native {:?}",
                found.class(),
                request.operation.as_str(),
                request.resource.name(),
                request.user,
                found.situation().namespace_labels,
                request.object,
                request.old_object,
                found.kyverno(),
                found.native(),
            ));
        }
    }
    Ok(())
}
