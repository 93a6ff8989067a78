//! Writes match blocks as values, as Go does: empty fields are omitted, `resources` is always present.
//!
//! Autogen and conversion build and show new blocks; two blocks are equivalent if their values are equal, regardless of
//! their locations.

use super::{
    located::Text,
    match_resources::{MatchResources, ResourceDescription, ResourceFilter, Subject, UserFilter},
};
use crate::kube::LabelSelector;
use kyvtest_go_compat::value::{Builder, Document};

impl MatchResources {
    /// The block as a value.
    pub fn to_document(&self) -> Document {
        let mut builder = Builder::new();
        self.write(&mut builder);
        builder.finish()
    }

    /// Adds the block to a value.
    pub(crate) fn write(&self, builder: &mut Builder) {
        builder.begin_map();
        for (key, filters) in [("any", &self.any), ("all", &self.all)] {
            list(builder, key, filters, |builder, filter| filter.write(builder));
        }
        self.inline.write_fields(builder);
        builder.end();
    }
}

impl ResourceFilter {
    /// The filter as a value.
    pub fn to_document(&self) -> Document {
        let mut builder = Builder::new();
        self.write(&mut builder);
        builder.finish()
    }

    fn write(&self, builder: &mut Builder) {
        builder.begin_map();
        self.write_fields(builder);
        builder.end();
    }

    fn write_fields(&self, builder: &mut Builder) {
        self.user.write_fields(builder);
        builder.key("resources");
        self.resources.write(builder);
    }
}

impl UserFilter {
    fn write_fields(&self, builder: &mut Builder) {
        for (key, roles) in [("roles", &self.roles), ("clusterRoles", &self.cluster_roles)] {
            texts(builder, key, roles.as_deref().unwrap_or_default());
        }
        let subjects = self.subjects.as_deref().unwrap_or_default();
        list(builder, "subjects", subjects, |builder, subject| subject.write(builder));
    }
}

impl Subject {
    fn write(&self, builder: &mut Builder) {
        builder.begin_map();
        string(builder, "kind", &self.kind);
        for (key, text) in [("apiGroup", &self.api_group), ("namespace", &self.namespace)] {
            if !text.is_empty() {
                string(builder, key, text);
            }
        }
        string(builder, "name", &self.name);
        builder.end();
    }
}

impl ResourceDescription {
    fn write(&self, builder: &mut Builder) {
        builder.begin_map();
        list(builder, "kinds", &self.kinds, |builder, kind| {
            builder.string(&kind.text);
        });
        if let Some(name) = &self.name {
            string(builder, "name", name);
        }
        texts(builder, "names", &self.names);
        texts(builder, "namespaces", &self.namespaces);
        if let Some(annotations) = &self.annotations {
            builder.key("annotations");
            builder.begin_map();
            for (key, value) in annotations {
                string(builder, key, value);
            }
            builder.end();
        }
        for (key, selector) in [
            ("selector", &self.selector),
            ("namespaceSelector", &self.namespace_selector),
        ] {
            if let Some(selector) = selector {
                builder.key(key);
                write_selector(builder, selector);
            }
        }
        texts(builder, "operations", &self.operations);
        builder.end();
    }
}

/// Adds a label selector to a value.
pub fn write_selector(builder: &mut Builder, selector: &LabelSelector) {
    builder.begin_map();
    let (pairs, expressions): (Vec<_>, Vec<_>) = selector.requirements().iter().partition(|item| item.is_pair);
    if !pairs.is_empty() {
        builder.key("matchLabels");
        builder.begin_map();
        for pair in pairs {
            string(builder, &pair.key, pair.values.first().map_or("", String::as_str));
        }
        builder.end();
    }
    list(builder, "matchExpressions", &expressions, |builder, expression| {
        builder.begin_map();
        string(builder, "key", &expression.key);
        string(builder, "operator", &expression.word);
        list(builder, "values", &expression.values, |builder, value| {
            builder.string(value);
        });
        builder.end();
    });
    builder.end();
}

fn string(builder: &mut Builder, key: &str, text: &str) {
    builder.key(key);
    builder.string(text);
}

fn texts(builder: &mut Builder, key: &str, items: &[Text]) {
    list(builder, key, items, |builder, text| builder.string(text));
}

/// A list, omitted if empty.
fn list<T>(builder: &mut Builder, key: &str, items: &[T], write: impl Fn(&mut Builder, &T)) {
    if items.is_empty() {
        return;
    }
    builder.key(key);
    builder.begin_list();
    for item in items {
        write(builder, item);
    }
    builder.end();
}
