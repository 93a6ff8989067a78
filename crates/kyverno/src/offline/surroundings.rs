//! What a test says of the world outside: objects of a cluster, a context file, answers to calls, global context entries.
//!
//! Upstream counterpart: `cmd/cli/kubectl-kyverno/commands/test/test.go` and `store/{mock,gctx_resolve}.go` (1.19).

use std::sync::Arc;

use crate::{
    classic::context::{Api, Given, global_value},
    image_mocks::ImageMock,
};
use kyvtest_cel::host::Mocks;
use kyvtest_go_compat::{
    diagnostic::Sources,
    value::{Builder, Data, Document, List, Map, Value},
    yaml,
};
use kyvtest_model::policy::decode::{Decoder, Style};

/// The world outside of a test.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// `spec.resources` of the `ClusterResource` file; `None` outside of cluster mode.
    pub cluster: Option<Vec<Document>>,
    /// `spec.crds` of the `ClusterResource` file.
    pub definitions: Vec<Document>,
    /// `spec.resources` of the `Context` file.
    pub described: Vec<Document>,
    /// `spec.images` of the `Context` file.
    pub images: Vec<(String, Document)>,
    /// `apiCallResponses`: address, or `METHOD:address`, and the answer with `body` and `statusCode`.
    pub api_calls: Vec<(String, Document)>,
    /// `globalContextEntries`: name and value, or why it has none.
    pub globals: Vec<(String, Result<Data, String>)>,
    /// What answers in place of registries; `kyverno test` has nothing of the kind.
    pub image_mocks: Vec<ImageMock>,
}

fn items<'v>(value: Value<'v>, key: &str) -> impl Iterator<Item = Value<'v>> {
    value.get(key).and_then(Value::as_list).into_iter().flat_map(List::iter)
}

fn text<'v>(value: Value<'v>, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

impl Surroundings {
    /// Reads the keys `clusterResources`, `context`, `apiCallResponses` and `globalContextEntries`.
    pub fn read(row: Value<'_>) -> Self {
        let context = row.get("context").unwrap_or(Value::Null);
        let cluster = row.get("clusterResources").filter(|objects| !objects.is_null());
        let objects = |list: Value<'_>| -> Vec<Document> {
            let list = list.as_list().into_iter().flat_map(List::iter);
            list.map(Value::to_document).collect()
        };
        Self {
            cluster: cluster.map(objects),
            definitions: Vec::new(),
            described: objects(context.get("resources").unwrap_or(Value::Null)),
            images: images(context),
            api_calls: items(row, "apiCallResponses").map(api_call).collect(),
            globals: items(row, "globalContextEntries").map(global_entry).collect(),
            image_mocks: Vec::new(),
        }
    }

    /// Reads image mocks as a sidecar writes them; null means none.
    ///
    /// # Errors
    /// The first problem of the list.
    pub fn read_image_mocks(&mut self, list: Value<'_>) -> Result<(), String> {
        if list.is_null() {
            return Ok(());
        }
        let text = list.to_json();
        let file = Sources::new().add("imageMocks", text.as_str());
        let tree = yaml::read_first(&text, yaml::Mode::Strict, &yaml::Limits::default());
        let tree = Arc::new(tree.map_err(|error| format!("`imageMocks`: {error}"))?);
        let mut decoder = Decoder::new(&tree, file, Style::Schema);
        let mocks = decoder.list(tree.root(), ImageMock::decode);
        if let Some(problem) = decoder.finish().diagnostics.first() {
            return Err(format!("`imageMocks`: {}", problem.message));
        }
        self.image_mocks = mocks.unwrap_or_default();
        Ok(())
    }

    /// Adds image metadata and global context entries to the mocks of a host. An entry without a value is left out: looking it up
    /// is an error.
    pub fn add_data(&self, mocks: &mut Mocks) {
        for (reference, metadata) in &self.images {
            mocks.add_image(reference, metadata.clone());
        }
        for (name, value) in &self.globals {
            if let Ok(value) = value {
                mocks.add_global(name, value.to_document());
            }
        }
    }

    /// Adds the responses to HTTP calls to the mocks of a host.
    pub fn add_calls(&self, mocks: &mut Mocks) {
        for (call, answer) in &self.api_calls {
            mocks.add_http(call, answer.clone());
        }
    }

    /// Which parts it describes.
    pub fn given(&self) -> Given {
        Given {
            cluster: self.cluster.is_some(),
            api_calls: !self.api_calls.is_empty(),
            global_context: !self.globals.is_empty(),
            images: !self.images.is_empty(),
            api: Api::Fake,
        }
    }
}

fn images(context: Value<'_>) -> Vec<(String, Document)> {
    if let Some(list) = context.get("images").and_then(Value::as_list) {
        let images = list.iter();
        return images
            .map(|image| (text(image, "image").to_owned(), image.to_document()))
            .collect();
    }
    let images = context.get("images").and_then(Value::as_map);
    let images = images.into_iter().flat_map(Map::iter);
    images
        .map(|(reference, image)| (reference.text().to_owned(), image.to_document()))
        .collect()
}

fn api_call(entry: Value<'_>) -> (String, Document) {
    let url = match text(entry, "url").trim() {
        "" => text(entry, "urlPath").trim(),
        url => url,
    };
    let method = text(entry, "method").trim().to_ascii_uppercase();
    let key = if method.is_empty() {
        url.to_owned()
    } else {
        format!("{method}:{url}")
    };
    let response = entry.get("response").unwrap_or(Value::Null);
    let status = match response.get("statusCode") {
        Some(Value::Int(status)) if status != 0 => status,
        _ => 200,
    };
    let mut builder = Builder::new();
    builder.begin_map();
    builder.key("body");
    builder.value(response.get("body").unwrap_or(Value::Null));
    builder.key("statusCode");
    builder.int(status);
    builder.end();
    (key, builder.finish())
}

fn global_entry(entry: Value<'_>) -> (String, Result<Data, String>) {
    let name = text(entry, "name").trim();
    let data = match entry.get("data").filter(|data| !data.is_null()) {
        Some(data) => Data::from(data),
        None => items(entry, "resources").map(Data::from).collect(),
    };
    let projections: Vec<(&str, &str)> = items(entry, "projections")
        .map(|projection| (text(projection, "name").trim(), text(projection, "path").trim()))
        .collect();
    let value = global_value(name, &data, text(entry, "fieldPath"), &projections);
    (name.to_owned(), value)
}
