//! `verifyImages` rules as ImageValidatingPolicies, one for each entry.
//!
//! Upstream counterpart: `pkg/engine/internal/imageverifier.go` on one side, `pkg/cel/policies/ivpol` on the other (Kyverno 1.19).
//! Classic references are matched with the registry and the tag that an image has by default, new ones as they are written: a
//! reference is translated if that makes no difference. Both sides run on Pods as `kyverno test` evaluates them; without a
//! registry that tells which images are concerned and whether they have digests, and nothing about signatures.

use kyvtest_cel::host::Mocks;
use kyvtest_go_compat::value::Document;
use kyvtest_kyverno::{autogen, offline};
use kyvtest_model::{
    kube::{Discovery, Operation},
    policy::{ClassicPolicy, FailureAction, Rule},
};
use serde_json::{Map, Value as Json, json};

use crate::{
    Refusal, RefusalCode,
    assemble::{constraints, only_pods},
    conditions,
    draft::scopes_of,
    guess::Guess,
    kinds::{self, Translated, load_translation, numbered, object, webhook},
    layout::layout,
    migrate::cut,
    names::{Names, Variables},
    scope::{Scope, Subject},
    settings,
};

/// Whether a rule belongs to this module.
pub(crate) fn is_about(rule: &Rule) -> bool {
    rule.verify_images.is_some()
}

fn refused<T>(code: RefusalCode, reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(code, reason))
}

/// Fields of an entry that have a translation, or none to lose.
const KNOWN: [&str; 12] = [
    "failureAction",
    "type",
    "imageReferences",
    "attestors",
    "attestations",
    "repository",
    "annotations",
    "mutateDigest",
    "verifyDigest",
    "required",
    "useCache",
    "imageRegistryCredentials",
];

/// Translates a rule, and compares both.
pub(crate) fn translate(
    policy: &ClassicPolicy,
    rule: &Rule,
    base: &str,
    (discovery, guesses): (&Discovery, &[Guess]),
) -> Result<Translated, Refusal> {
    settings::check(policy, rule, discovery)?;
    let only = kinds::alone(policy, rule, discovery)?;
    let Some(tree) = &rule.verify_images else {
        return refused(RefusalCode::RuleType, "the rule does not verify images");
    };
    if let Some(context) = rule.context.as_ref().filter(|part| !part.node().is_null()) {
        let reason = "`context` of a rule that verifies images; match conditions have no variables";
        return Err(Refusal::new(RefusalCode::Context, reason).at(context.span()));
    }
    if let Some(extractors) = &rule.image_extractors {
        let reason = "`imageExtractors` are JMESPath with keys; write them as `images` by hand";
        return Err(Refusal::new(RefusalCode::Context, reason).at(extractors.span()));
    }
    let scopes = scopes_of(
        &only,
        rule,
        &[Operation::Create, Operation::Update],
        (discovery, guesses),
    )?;
    let precondition = precondition(rule)?;
    let entries = tree.document().root().to_serde();
    let mut names = Vec::new();
    let mut objects = Vec::new();
    for entry in entries.as_array().into_iter().flatten() {
        for scope in &scopes {
            let mut spec = spec(policy, entry).map_err(|refusal| refusal.at(tree.span()))?;
            spec["matchConstraints"] = constraints(&scope.constraints);
            let own = scope.condition.iter().map(|text| ("match", text.clone()));
            let tests: Vec<Json> = own
                .chain(precondition.iter().map(|text| ("preconditions", text.clone())))
                .map(|(name, text)| json!({"name": name, "expression": layout(&text)}))
                .collect();
            let generated = autogen::all_rules(&only).len() > 1;
            if generated && !tests.is_empty() {
                let reason = "conditions of a rule that also counts for pod controllers; write a rule for each kind";
                return Err(Refusal::new(RefusalCode::Match, reason).at(rule.span));
            }
            if !tests.is_empty() {
                spec["matchConditions"] = Json::Array(tests);
            }
            if only_pods(&scope.constraints) && !generated {
                spec["autogen"] = json!({"podControllers": {"controllers": []}});
            }
            let name = numbered(base.to_owned(), &mut names);
            objects.push(object(policy, "ImageValidatingPolicy", &name, spec));
        }
    }
    let requests = compare(&only, rule, &objects, &entries).map_err(|refusal| refusal.at(rule.span))?;
    Ok(Translated {
        is_proven: false,
        variants: objects.iter().map(|_| vec!["", "controllers", "cronjobs"]).collect(),
        objects,
        requests,
        reason: "compared as far as no registry is needed: which images are concerned, and digests; not signatures"
            .to_owned(),
        notes: vec!["verify a signed and an unsigned image before you remove the classic policy".to_owned()],
    })
}

fn precondition(rule: &Rule) -> Result<Option<String>, Refusal> {
    let Some(tree) = rule.preconditions.as_ref().filter(|part| !part.node().is_null()) else {
        return Ok(None);
    };
    let mut scope = Scope::default();
    let subject = Subject {
        expr: crate::Expr::primary("object"),
        path: Some(Vec::new()),
    };
    scope.bind("request.object", subject);
    let mut variables = Variables::default();
    let mut names = Names::new(scope, &mut variables);
    let test = conditions::conditions(tree, &mut names)?;
    if variables.iter().next().is_some() {
        let reason = "the preconditions need variables, which match conditions do not have";
        return Err(Refusal::new(RefusalCode::Variable, reason).at(tree.span()));
    }
    Ok(Some(test.as_bool().as_str().to_owned()))
}

fn text(value: &Json) -> &str {
    value.as_str().unwrap_or_default()
}

fn spec(policy: &ClassicPolicy, entry: &Json) -> Result<Json, Refusal> {
    let unknown = entry.as_object().into_iter().flatten().find(|(key, value)| {
        let empty = value.is_null() || **value == json!({}) || **value == json!([]) || **value == json!("");
        !empty && !KNOWN.contains(&key.as_str())
    });
    if let Some((key, _)) = unknown {
        return refused(
            RefusalCode::Setting,
            format!("`{key}` of an image verification has no translation"),
        );
    }
    let enforce = match text(&entry["failureAction"]) {
        "" => policy.spec.validation_failure_action == FailureAction::Enforce,
        action => action.eq_ignore_ascii_case("enforce"),
    };
    let mut spec = json!({"validationActions": [if enforce { "Deny" } else { "Audit" }]});
    webhook(policy, &mut spec);
    if !policy.spec.background {
        spec["evaluation"]["background"] = json!({"enabled": false});
    }
    // Set by the caller; here for the order of fields.
    spec["matchConstraints"] = Json::Null;
    let references = entry["imageReferences"].as_array().into_iter().flatten();
    let references = references
        .map(|pattern| reference(text(pattern)))
        .collect::<Result<Vec<_>, _>>()?;
    spec["matchImageReferences"] = references.into_iter().flatten().collect();
    spec["validationConfigurations"] = json!({
        "mutateDigest": entry["mutateDigest"].as_bool().unwrap_or(true),
        "verifyDigest": entry["verifyDigest"].as_bool().unwrap_or(true),
        "required": entry["required"].as_bool().unwrap_or(true),
    });
    let credentials = &entry["imageRegistryCredentials"];
    if credentials.is_object() {
        spec["credentials"] = credentials.clone();
    }
    let mut attestors: Vec<Json> = Vec::new();
    let mut validations: Vec<Json> = Vec::new();
    for (number, set) in entry["attestors"].as_array().into_iter().flatten().enumerate() {
        let (names, count) = set_of(entry, set, &mut attestors)?;
        let call = format!("verifyImageSignatures(image, [{}]) >= {count}", names.join(", "));
        validations.push(validation(
            &call,
            &format!("the signatures of an image do not satisfy attestors[{number}]"),
        ));
    }
    let mut attestations: Vec<Json> = Vec::new();
    for (number, attestation) in entry["attestations"].as_array().into_iter().flatten().enumerate() {
        if attestation["conditions"]
            .as_array()
            .is_some_and(|list| !list.is_empty())
        {
            return refused(
                RefusalCode::Condition,
                "conditions of attestations read the payload as variables; write them with `extractPayload` by hand",
            );
        }
        let predicate = [&attestation["type"], &attestation["predicateType"]];
        let predicate = predicate.into_iter().map(text).find(|word| !word.is_empty());
        let name = format!("attestation{}", number + 1);
        let kind = if text(&entry["type"]) == "Notary" {
            "referrer"
        } else {
            "intoto"
        };
        attestations.push(json!({"name": name, kind: {"type": predicate.unwrap_or_default()}}));
        for set in attestation["attestors"].as_array().into_iter().flatten() {
            let (names, count) = set_of(entry, set, &mut attestors)?;
            let call = format!(
                "verifyAttestationSignatures(image, attestations.{name}, [{}]) >= {count}",
                names.join(", ")
            );
            validations.push(validation(
                &call,
                &format!("attestations[{number}] of an image is not signed"),
            ));
        }
    }
    spec["attestors"] = Json::Array(attestors);
    if !attestations.is_empty() {
        spec["attestations"] = Json::Array(attestations);
    }
    if validations.is_empty() {
        return refused(
            RefusalCode::Setting,
            "an entry without attestors asks for digests alone; an ImageValidatingPolicy would fetch every image for that: write a \
             ValidatingPolicy with `image(ref).containsDigest()`",
        );
    }
    spec["validations"] = Json::Array(validations);
    Ok(spec)
}

fn validation(call: &str, message: &str) -> Json {
    let all = "(images.containers + images.initContainers + images.ephemeralContainers)";
    json!({"message": message, "expression": format!("{all}.all(image,\n  {call}\n)")})
}

/// The entries for a pattern, which new policies match with images as they are written.
fn reference(pattern: &str) -> Result<Vec<Json>, Refusal> {
    let glob = |text: &str| json!({"glob": text});
    if pattern == "*" {
        return Ok(vec![glob(pattern)]);
    }
    let refuse = |why: &str| {
        let reason = format!(
            "`{pattern}` {why}; a new policy sees images as they are written, without the default registry and tag"
        );
        refused(RefusalCode::Pattern, reason)
    };
    if pattern.contains(['{', '[', '\\', '!', '\'']) {
        return refuse("has characters that mean something in globs");
    }
    let registry = pattern.split('/').next().unwrap_or_default();
    let explicit = pattern.contains('/') && !registry.contains(['*', '?']) && registry.contains(['.', ':']);
    if !explicit || registry.ends_with("docker.io") {
        return refuse("may mean images without a registry");
    }
    let last = pattern.rsplit('/').next().unwrap_or_default();
    let tagged = last.split_once(':').filter(|_| !last.contains('@'));
    let Some((name, tag)) = tagged else {
        return match last {
            last if last.contains('@') || last.ends_with('*') => Ok(vec![glob(pattern)]),
            _ => refuse("has no tag"),
        };
    };
    let repository = &pattern[..pattern.len() - last.len() + name.len()];
    // An image with a tag and a digest has no tag for Kyverno.
    match tag {
        "*" if !repository.contains(['*', '?']) => Ok(vec![json!({
            "expression": format!("ref == '{repository}' || ref.startsWith('{repository}:') && !ref.contains('@')"),
        })]),
        "latest" if !repository.contains(['*', '?']) => Ok(vec![glob(pattern), glob(repository)]),
        tag if !pattern.contains(['*', '?']) && !tag.is_empty() => Ok(vec![glob(pattern)]),
        _ => refuse("has wildcards before a tag"),
    }
}

/// The attestors of a set as expressions, and how many of them must vouch.
fn set_of(entry: &Json, set: &Json, attestors: &mut Vec<Json>) -> Result<(Vec<String>, u64), Refusal> {
    let mut names = Vec::new();
    for one in set["entries"].as_array().into_iter().flatten() {
        for body in bodies(entry, one)? {
            let known = attestors.iter().find(|other| {
                let mut other = (*other).clone();
                other.as_object_mut().map(|map| map.shift_remove("name"));
                other == body
            });
            let name = match known {
                Some(known) => text(&known["name"]).to_owned(),
                None => {
                    let name = format!("attestor{}", attestors.len() + 1);
                    let mut named = json!({"name": name});
                    if let (Some(named), Some(body)) = (named.as_object_mut(), body.as_object()) {
                        named.extend(body.clone());
                    }
                    attestors.push(named);
                    name
                }
            };
            names.push(format!("attestors.{name}"));
        }
    }
    if names.is_empty() {
        return refused(RefusalCode::Setting, "a set of attestors without entries");
    }
    let count = set["count"].as_u64().filter(|count| *count > 0);
    let all = names.len() as u64;
    Ok((names, count.unwrap_or(all)))
}

/// An attestor as new ones: one for each key.
fn bodies(entry: &Json, one: &Json) -> Result<Vec<Json>, Refusal> {
    if one["attestor"].is_object() {
        return refused(
            RefusalCode::Setting,
            "an attestor inside an attestor; write its entries beside the others",
        );
    }
    if text(&entry["type"]) == "Notary" {
        let certs = text(&one["certificates"]["cert"]);
        if certs.is_empty() {
            return refused(RefusalCode::Setting, "an attestor of type Notary without a certificate");
        }
        return Ok(vec![json!({"notary": {"certs": {"value": certs}}})]);
    }
    if !matches!(text(&entry["type"]), "" | "Cosign") {
        return refused(
            RefusalCode::Setting,
            "only the types Cosign and Notary have a translation",
        );
    }
    let mut cosign = Map::new();
    let source = |cosign: &mut Map<String, Json>| {
        for from in [&one["repository"], &entry["repository"]] {
            if !text(from).is_empty() && !cosign.contains_key("source") {
                cosign.insert("source".to_owned(), json!({"repository": from}));
            }
        }
        for from in [&one["annotations"], &entry["annotations"]] {
            if from.is_object() && !cosign.contains_key("annotations") {
                cosign.insert("annotations".to_owned(), from.clone());
            }
        }
    };
    source(&mut cosign);
    for (key, part) in [
        ("keys", &one["keys"]),
        ("keyless", &one["keyless"]),
        ("certificates", &one["certificates"]),
    ] {
        if !part.is_object() {
            continue;
        }
        let log = log_of(part);
        if log != json!({}) {
            cosign.insert("ctlog".to_owned(), log);
        }
        let made = match key {
            "keys" => return keys(part, one, &cosign),
            "keyless" => ("keyless", keyless(part)?),
            _ => ("certificate", certificate(part)),
        };
        cosign.insert(made.0.to_owned(), made.1);
        return Ok(vec![json!({"cosign": cosign})]);
    }
    refused(
        RefusalCode::Setting,
        "an attestor without keys, certificates or identities",
    )
}

/// Where signatures are logged.
fn log_of(part: &Json) -> Json {
    let mut log = json!({});
    for (from, to) in [
        (&part["rekor"]["url"], "url"),
        (&part["rekor"]["pubkey"], "rekorPubKey"),
        (&part["rekor"]["ignoreTlog"], "insecureIgnoreTlog"),
        (&part["ctlog"]["ignoreSCT"], "insecureIgnoreSCT"),
        (&part["ctlog"]["pubkey"], "ctLogPubKey"),
        (&part["ctlog"]["tsaCertChain"], "tsaCertChain"),
    ] {
        if !from.is_null() {
            log[to] = from.clone();
        }
    }
    log
}

fn keys(part: &Json, one: &Json, cosign: &Map<String, Json>) -> Result<Vec<Json>, Refusal> {
    if part["secret"].is_object() {
        return refused(
            RefusalCode::Context,
            "a key in a Secret; read it with `resource.Get` in `key.expression` by hand",
        );
    }
    let algorithm = [&part["signatureAlgorithm"], &one["signatureAlgorithm"]];
    let algorithm = algorithm.into_iter().map(text).find(|word| !word.is_empty());
    let kms = text(&part["kms"]);
    let written = text(&part["publicKeys"]);
    if written.contains("{{") || kms.contains("{{") {
        return refused(
            RefusalCode::Variable,
            "a key that is a variable; use `key.expression` by hand",
        );
    }
    let mut all: Vec<Json> = Vec::new();
    if !kms.is_empty() {
        all.push(json!({"kms": kms}));
    } else if written.starts_with("k8s://") {
        return refused(
            RefusalCode::Context,
            "a key in a Secret; read it with `resource.Get` in `key.expression` by hand",
        );
    } else if written.contains("://") {
        all.push(json!({"kms": written}));
    } else {
        const END: &str = "-----END PUBLIC KEY-----";
        let parts = written.split_inclusive(END).map(str::trim);
        all.extend(
            parts
                .filter(|part| part.ends_with(END))
                .map(|part| json!({"data": part})),
        );
    }
    if all.is_empty() {
        return refused(RefusalCode::Setting, "an attestor without a readable key");
    }
    Ok(all
        .into_iter()
        .map(|mut key| {
            if let Some(algorithm) = algorithm {
                key["hashAlgorithm"] = json!(algorithm);
            }
            let mut cosign = cosign.clone();
            cosign.insert("key".to_owned(), key);
            json!({"cosign": cosign})
        })
        .collect())
}

fn keyless(part: &Json) -> Result<Json, Refusal> {
    let mut identity = json!({});
    for key in ["issuer", "subject"] {
        let written = text(&part[key]);
        if written.contains("{{") {
            return refused(
                RefusalCode::Variable,
                format!("`{key}` is a variable; use `subjectExpression` by hand"),
            );
        }
        if written.contains(['*', '?']) {
            identity[format!("{key}RegExp")] = json!(expression(written));
        } else if !written.is_empty() {
            identity[key] = json!(written);
        }
        let pattern = format!("{key}RegExp");
        if !text(&part[&pattern]).is_empty() {
            identity[&pattern] = part[&pattern].clone();
        }
    }
    let mut keyless = json!({"identities": [identity]});
    for key in ["roots", "additionalExtensions"] {
        if !part[key].is_null() {
            keyless[key] = part[key].clone();
        }
    }
    Ok(keyless)
}

/// A regular expression for a text with wildcards.
fn expression(pattern: &str) -> String {
    let mut out = String::from("^");
    for c in pattern.chars() {
        match c {
            '*' => out.push_str(".*"),
            '?' => out.push('.'),
            c if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '@' | ':' | '/') => out.push(c),
            c => {
                out.push('\\');
                out.push(c);
            }
        }
    }
    out.push('$');
    out
}

fn certificate(part: &Json) -> Json {
    let mut certificate = json!({});
    for key in ["cert", "certChain"] {
        if !text(&part[key]).is_empty() {
            certificate[key] = json!({"value": part[key]});
        }
    }
    certificate
}

/// Runs both sides on Pods, and counts them.
fn compare(only: &ClassicPolicy, rule: &Rule, objects: &[Json], entries: &Json) -> Result<u64, Refusal> {
    load_translation(objects)?;
    let written = cut(only, &[rule]);
    let (mut tried, mut failed) = (0, 0);
    for pod in pods(entries) {
        let before = fails(std::slice::from_ref(&written), &pod)?;
        let after = fails(objects, &pod)?;
        tried += 1;
        failed += u64::from(before);
        if before != after {
            let reason = format!(
                "the translation decides about a Pod differently; it is not written. The rule {}: {pod}",
                if before { "refuses it" } else { "lets it through" }
            );
            return refused(RefusalCode::Refuted, reason);
        }
    }
    if failed == 0 {
        let reason = "no Pod was found that the rule refuses, so nothing shows that the translation is right";
        return refused(RefusalCode::Untested, reason);
    }
    Ok(tried)
}

/// Pods with images that the references are about, and others; with and without digests.
fn pods(entries: &Json) -> Vec<Json> {
    const DIGEST: &str = "@sha256:b31bfb4d0213f254d361e0079deaaebefa4f82ba7aa76ef82e90b4935ad5b105";
    let mut names: Vec<String> = [
        "nginx",
        "nginx:1.25",
        "docker.io/library/redis:7",
        "quay.io/org/app:v1",
        "localhost:5000/app",
    ]
    .map(str::to_owned)
    .to_vec();
    let references = entries.as_array().into_iter().flatten();
    let references = references.flat_map(|entry| entry["imageReferences"].as_array().into_iter().flatten());
    for pattern in references.map(text) {
        names.push(pattern.replace('*', "sample").replace('?', "x"));
        let short = pattern.trim_end_matches('*').trim_end_matches([':', '/']);
        if !short.is_empty() && !short.contains('*') {
            names.push(short.to_owned());
            names.push(format!("{short}:v2"));
        }
    }
    names.retain(|name| !name.is_empty() && name != "sample");
    let with_digest: Vec<String> = names
        .iter()
        .filter(|name| !name.contains('@'))
        .map(|name| format!("{name}{DIGEST}"))
        .collect();
    names.extend(with_digest);
    let pod = |spec: Json| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "sample", "namespace": "apps"}, "spec": spec});
    let mut pods = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let one = json!({"name": "one", "image": name});
        let other = json!({"name": "two", "image": names[(number + 3) % names.len()]});
        pods.push(pod(json!({"containers": [one]})));
        pods.push(pod(json!({"containers": [one], "initContainers": [other]})));
        pods.push(pod(json!({"containers": [one, other]})));
    }
    pods
}

/// Whether policies refuse a Pod, or cannot decide without a registry.
fn fails(policies: &[Json], pod: &Json) -> Result<bool, Refusal> {
    let row = json!({"policies": policies, "resource": pod});
    let case = offline::Case::read(Document::from(&row).root());
    let case = case.map_err(|error| Refusal::new(RefusalCode::Refuted, error))?;
    let observed = offline::run(&case, &Mocks::new()).to_json();
    if let Some(error) = observed["error"].as_str() {
        return refused(RefusalCode::Refuted, format!("the policy cannot be evaluated: {error}"));
    }
    let responses = observed["responses"].as_array().into_iter().flatten();
    let mut rules = responses.flat_map(|response| response["rules"].as_array().into_iter().flatten());
    Ok(rules.any(|rule| rule["status"] == "fail" || rule["status"] == "error"))
}
