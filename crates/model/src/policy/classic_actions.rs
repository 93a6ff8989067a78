//! Schema checks of the rule sections other than validation: `mutate`, `generate`, `verifyImages`, signed manifests.
//!
//! Upstream counterpart: the schemas of `kyverno.io/v1` and `v2beta1` (1.19). Each section is checked and kept as
//! written.

use super::{
    classic_parts::{context, deny, done, foreach_conditions, nested_foreach, registry_credentials},
    decode::{Decoder, Fields},
    located::Subtree,
    parts::{LabelSelector, conditions_of},
};
use kyvtest_go_compat::yaml::{Node, Number};

fn strings(fields: &mut Fields<'_, '_>, names: &[&'static str]) {
    for name in names {
        fields.string(name);
    }
}

/// Fields that are booleans.
fn flags(fields: &mut Fields<'_, '_>, names: &[&'static str]) {
    for name in names {
        fields.bool(name);
    }
}

/// `imageExtractors`: the paths of images in custom kinds.
pub(super) fn image_extractors<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Subtree> {
    decoder.map(node, |decoder, node| {
        decoder.list(node, |decoder, node| {
            let mut fields = decoder.fields(node)?;
            fields.required("path", Decoder::string);
            strings(&mut fields, &["value", "name", "key", "jmesPath"]);
            done(fields)
        })
    })?;
    decoder.subtree(node)
}

pub(super) fn mutate<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Subtree> {
    let mut fields = decoder.fields(node)?;
    fields.bool("mutateExistingOnPolicyUpdate");
    fields.list("targets", |decoder, node| {
        let mut fields = decoder.fields(node)?;
        strings(&mut fields, &["apiVersion", "kind", "namespace", "name", "uid"]);
        fields.optional("selector", LabelSelector::decode);
        fields.optional("context", context);
        fields.ignore(&["preconditions"]);
        done(fields)
    });
    fields.string("patchesJson6902");
    fields.ignore(&["patchStrategicMerge"]);
    fields.list("foreach", |decoder, node| {
        let mut fields = decoder.fields(node)?;
        fields.string("list");
        fields.word("order", &[("Ascending", ()), ("Descending", ())]);
        fields.optional("context", context);
        fields.optional("preconditions", foreach_conditions);
        fields.string("patchesJson6902");
        fields.ignore(&["patchStrategicMerge"]);
        fields.optional("foreach", nested_foreach);
        done(fields)
    });
    fields.finish();
    decoder.subtree(node)
}

pub(super) fn generate<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Subtree> {
    let mut fields = decoder.fields(node)?;
    flags(
        &mut fields,
        &["generateExisting", "synchronize", "orphanDownstreamOnPolicyDelete"],
    );
    generate_pattern(&mut fields);
    fields.list("foreach", |decoder, node| {
        let mut fields = decoder.fields(node)?;
        fields.string("list");
        fields.optional("context", context);
        fields.optional("preconditions", foreach_conditions);
        generate_pattern(&mut fields);
        done(fields)
    });
    fields.finish();
    decoder.subtree(node)
}

/// The generated object and its source.
fn generate_pattern(fields: &mut Fields<'_, '_>) {
    strings(fields, &["apiVersion", "kind", "namespace", "name", "uid"]);
    fields.ignore(&["data"]);
    fields.optional("clone", |decoder, node| {
        let mut fields = decoder.fields(node)?;
        strings(&mut fields, &["namespace", "name"]);
        done(fields)
    });
    fields.optional("cloneList", |decoder, node| {
        let mut fields = decoder.fields(node)?;
        fields.string("namespace");
        fields.strings("kinds");
        fields.optional("selector", LabelSelector::decode);
        done(fields)
    });
}

pub(super) fn verify_images<'t>(decoder: &mut Decoder<'t>, node: Node<'t>, v2beta1: bool) -> Option<Subtree> {
    decoder.list(node, |decoder, node| {
        let mut fields = decoder.fields(node)?;
        fields.word("failureAction", &[("Audit", ()), ("Enforce", ())]);
        fields.word("type", &[("Cosign", ()), ("SigstoreBundle", ()), ("Notary", ())]);
        fields.strings("imageReferences");
        fields.strings("skipImageReferences");
        fields.list("attestors", attestors);
        fields.list("attestations", |decoder, node| {
            let mut fields = decoder.fields(node)?;
            strings(&mut fields, &["name", "predicateType", "type"]);
            fields.list("attestors", attestors);
            fields.list("conditions", |decoder, node| conditions_of(decoder, node, true, false));
            done(fields)
        });
        fields.string("repository");
        flags(&mut fields, &["mutateDigest", "verifyDigest", "required", "useCache"]);
        fields.optional("validate", |decoder, node| {
            let mut fields = decoder.fields(node)?;
            fields.string("message");
            fields.optional("deny", deny);
            done(fields)
        });
        fields.optional("imageRegistryCredentials", registry_credentials);
        if !v2beta1 {
            strings(&mut fields, &["image", "key", "roots", "subject", "issuer"]);
            fields.bool("cosignOCI11");
            fields.optional("additionalExtensions", Decoder::string_map);
            fields.optional("annotations", Decoder::string_map);
        }
        done(fields)
    })?;
    decoder.subtree(node)
}

/// `manifests` of `validate`.
pub(super) fn manifests<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Subtree> {
    let mut fields = decoder.fields(node)?;
    fields.list("attestors", attestors);
    strings(&mut fields, &["annotationDomain", "repository"]);
    fields.list("ignoreFields", |decoder, node| {
        let mut fields = decoder.fields(node)?;
        fields.strings("fields");
        fields.list("objects", |decoder, node| {
            let mut fields = decoder.fields(node)?;
            strings(&mut fields, &["group", "version", "kind", "name", "namespace"]);
            done(fields)
        });
        done(fields)
    });
    fields.optional("dryRun", |decoder, node| {
        let mut fields = decoder.fields(node)?;
        fields.bool("enable");
        fields.string("namespace");
        done(fields)
    });
    fields.finish();
    decoder.subtree(node)
}

/// A set of attestors; nested attestors are not checked.
fn attestors<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<()> {
    let mut fields = decoder.fields(node)?;
    fields.optional("count", |decoder, node| {
        let count = decoder.int(node)?;
        if let Some(Number::Int(number)) = node.number()
            && number < 1
        {
            let path = decoder.path();
            decoder.schema_problem(format!(
                "{path}: Invalid value: {number}: {path} in body should be greater than or equal to 1"
            ));
            let message = format!("`{path}` must be at least 1");
            decoder.bad_value(count.span, message);
        }
        Some(())
    });
    fields.list("entries", |decoder, node| {
        let mut fields = decoder.fields(node)?;
        fields.optional("keys", |decoder, node| {
            let mut fields = decoder.fields(node)?;
            strings(&mut fields, &["publicKeys", "signatureAlgorithm", "kms"]);
            fields.optional("secret", |decoder, node| {
                let mut fields = decoder.fields(node)?;
                fields.required("name", Decoder::string);
                fields.required("namespace", Decoder::string);
                done(fields)
            });
            logs(&mut fields);
            done(fields)
        });
        fields.optional("certificates", |decoder, node| {
            let mut fields = decoder.fields(node)?;
            strings(&mut fields, &["cert", "certChain"]);
            logs(&mut fields);
            done(fields)
        });
        fields.optional("keyless", |decoder, node| {
            let mut fields = decoder.fields(node)?;
            strings(
                &mut fields,
                &["issuer", "issuerRegExp", "subject", "subjectRegExp", "roots"],
            );
            fields.optional("additionalExtensions", Decoder::string_map);
            logs(&mut fields);
            done(fields)
        });
        fields.ignore(&["attestor"]);
        fields.optional("annotations", Decoder::string_map);
        strings(&mut fields, &["repository", "signatureAlgorithm"]);
        done(fields)
    });
    done(fields)
}

/// The transparency logs of signatures.
fn logs(fields: &mut Fields<'_, '_>) {
    fields.optional("rekor", |decoder, node| {
        let mut fields = decoder.fields(node)?;
        strings(&mut fields, &["url", "pubkey"]);
        fields.bool("ignoreTlog");
        done(fields)
    });
    fields.optional("ctlog", |decoder, node| {
        let mut fields = decoder.fields(node)?;
        strings(&mut fields, &["pubkey", "tsaCertChain"]);
        fields.bool("ignoreSCT");
        done(fields)
    });
}
