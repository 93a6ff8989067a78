//! Compiles a policy and its exceptions to programs, or returns the errors for which Kyverno rejects the policy.

use super::{Attestor, CompiledImagePolicy, DeclaredAttestation, RequestSlots, Slots, reference::References};
use crate::cel_policy::{
    Exception, FieldError,
    compile::{audit_annotations, conditions, validations, variables},
};
use kyvtest_cel::{
    admission::aggregate, compile::analyse, composite::Composition, env::Env, library, plan::plan, profile::Profile,
    program::Program, types::Type,
};
use kyvtest_go_compat::{
    text::quote::quote,
    value::{Document, List, Value},
};
use kyvtest_model::{
    kube::GroupVersionResource,
    policy::{CelPolicyException, FailurePolicy, ImageValidatingPolicy, ImageValidatingPolicySpec, Mode},
};

/// The errors of a policy, at least one, each with its field.
pub(super) type Errors = Vec<String>;

/// The expressions that find images in well-known kinds, below the pod's spec.
fn built_in(resource: &GroupVersionResource) -> Vec<(String, String)> {
    let GroupVersionResource {
        group,
        version,
        resource,
    } = resource;
    let pod = match (group.as_str(), version.as_str(), resource.as_str()) {
        ("", "v1", "pods") => "spec",
        ("batch", "v1", "jobs") | ("apps", "v1", "deployments" | "statefulsets" | "daemonsets" | "replicasets") => {
            "spec.template.spec"
        }
        ("batch", "v1", "cronjobs") => "spec.jobTemplate.spec.template.spec",
        _ => return Vec::new(),
    };
    let lists = ["containers", "initContainers", "ephemeralContainers"];
    let expression = |list| format!("(object != null ? object : oldObject).{pod}.?{list}.orValue([]).map(e, e.image)");
    lists.map(|list| (list.to_owned(), expression(list))).into()
}

fn declare(env: &mut Env, mode: &Mode) -> Slots {
    let images = Type::map(Type::String, Type::list(Type::String));
    let (images, attestors, attestations) = (
        env.declare("images", images),
        env.declare("attestors", Type::map(Type::String, Type::Dyn)),
        env.declare("attestations", Type::map(Type::String, Type::String)),
    );
    let object = env.declare("object", Type::Dyn);
    let structs = |name| Type::structure(name);
    let request = (*mode == Mode::Kubernetes).then(|| RequestSlots {
        request: env.declare("request", structs(library::kubernetes::structs::ADMISSION_REQUEST)),
        namespace: env.declare("namespaceObject", structs(library::kubernetes::structs::NAMESPACE)),
        old_object: env.declare("oldObject", Type::Dyn),
        variables: env.declare("variables", Type::Dyn),
    });
    library::declare_variables(env, false);
    if request.is_some() {
        Composition::Kyverno.declare(env);
    }
    Slots {
        object,
        request,
        images,
        attestors,
        attestations,
    }
}

impl CompiledImagePolicy {
    /// Compiles a policy for objects of a resource; `None` for payloads, whose images only the policy's own extractors find.
    ///
    /// # Errors
    /// Kyverno's message, if an expression cannot be compiled.
    pub fn compile<'e>(
        policy: &ImageValidatingPolicy,
        resource: Option<&GroupVersionResource>,
        exceptions: impl IntoIterator<Item = &'e CelPolicyException>,
    ) -> Result<Self, String> {
        Self::compile_parts(policy, resource, exceptions).map_err(|errors| match resource {
            Some(_) => aggregate(errors),
            None => format!("[{}]", errors.join(" ")),
        })
    }

    fn compile_parts<'e>(
        policy: &ImageValidatingPolicy,
        resource: Option<&GroupVersionResource>,
        exceptions: impl IntoIterator<Item = &'e CelPolicyException>,
    ) -> Result<Self, Errors> {
        let spec = &policy.spec;
        let references =
            References::compile("spec.MatchImageReferences", &spec.match_image_references).map_err(|errors| {
                let errors = aggregate(errors);
                vec![format!("<nil>: Internal error: failed to compile matches: {errors}")]
            })?;
        let mut env = Env::new(Profile::kyverno_image(policy.scope()));
        let slots = declare(&mut env, &spec.evaluation.mode);
        let texts = |errors: Vec<FieldError>| -> Errors { errors.iter().map(ToString::to_string).collect() };
        let match_conditions = conditions("spec.matchConditions", &spec.match_conditions, &env).map_err(texts)?;
        let extractors = extractors(spec, resource, &env)?;
        let composite = if slots.request.is_some() {
            variables(&spec.variables, &mut env).map_err(texts)?
        } else {
            // Variables are compiled in every mode; only policies on requests see them.
            let mut other = Env::new(env.profile());
            declare(&mut other, &spec.evaluation.mode);
            variables(&spec.variables, &mut other).map_err(texts)?
        };
        let attestors = attestors(spec, &env)?;
        let validations = validations(&spec.validations, &env).map_err(|error| vec![error.to_string()])?;
        let audit_annotations = audit_annotations(&spec.audit_annotations, &env).map_err(texts)?;
        let exceptions = Exception::compile_all(exceptions, &env).map_err(texts)?;
        let namespace = policy.metadata.namespace.as_ref().filter(|_| policy.namespaced);
        let failure = spec.failure_policy.as_ref();
        Ok(Self {
            namespace: namespace.map(|text| text.value.clone()).unwrap_or_default(),
            ignores_errors: failure.is_some_and(|word| word.value == FailurePolicy::Ignore),
            configuration: spec.configuration,
            env,
            slots,
            match_conditions,
            references,
            extractors,
            composite,
            attestors,
            attestations: attestations(spec),
            validations,
            audit_annotations,
            exceptions,
        })
    }
}

/// The built-in extractors, then those of the policy.
fn extractors(
    spec: &ImageValidatingPolicySpec,
    resource: Option<&GroupVersionResource>,
    env: &Env,
) -> Result<Vec<(String, Program)>, Errors> {
    let own = spec.images.iter();
    let own = own.map(|image| (image.name.value.clone(), image.expression.text().to_owned()));
    let all = resource.map(built_in).unwrap_or_default().into_iter().chain(own);
    let mut compiled: Vec<(String, Program)> = Vec::new();
    for (i, (name, expression)) in all.enumerate() {
        let failed = |error: &dyn std::fmt::Display| {
            let expression = quote(&expression);
            vec![format!(
                "spec.images[{i}].expression: Invalid value: {expression}: {error}"
            )]
        };
        let checked = analyse(&expression, env).map_err(|error| failed(&error))?;
        let fits = match checked.result_type() {
            Type::List(item) => **item == Type::String || item.is_dyn(),
            other => other.is_dyn(),
        };
        if !fits {
            return Err(failed(&"output is expected to be of type list"));
        }
        let program = plan(&checked, env).map_err(|error| failed(&error))?;
        match compiled.iter_mut().find(|(other, _)| *other == name) {
            Some((_, other)) => *other = program,
            None => compiled.push((name, program)),
        }
    }
    Ok(compiled)
}

/// The attestations with their declarations in the policy's source.
fn attestations(spec: &ImageValidatingPolicySpec) -> Vec<DeclaredAttestation> {
    let source = spec.source.document();
    let written = source.root().get("attestations").and_then(Value::as_list);
    let written = written.into_iter().flat_map(List::iter);
    written
        .filter_map(|entry| {
            let text = |path: &[&str]| entry.at(path).and_then(Value::as_str);
            let referrer = text(&["referrer", "type"]);
            Some(DeclaredAttestation {
                name: text(&["name"])?.to_owned(),
                kind: text(&["intoto", "type"]).or(referrer).unwrap_or_default().to_owned(),
                is_referrer: text(&["intoto", "type"]).is_none() && referrer.is_some(),
            })
        })
        .collect()
}

fn attestors(spec: &ImageValidatingPolicySpec, env: &Env) -> Result<Vec<Attestor>, Errors> {
    let mut compiled = Vec::new();
    for (i, attestor) in spec.attestors.iter().enumerate() {
        let mut expressions = Vec::new();
        let body = attestor.body.document();
        for (path, expression) in &attestor.expressions {
            // Identities are compiled when they are used.
            if *path == "cosign.keyless.identities" || expression.text().is_empty() {
                continue;
            }
            let program = analyse(expression.text(), env)
                .map_err(|error| error.to_string())
                .and_then(|checked| plan(&checked, env).map_err(|error| error.to_string()));
            let program = program.map_err(|error| {
                let value = written_part(&body, path);
                vec![format!("spec.attestors[{i}]: Invalid value: {value}: {error}")]
            })?;
            expressions.push((*path, program));
        }
        compiled.push(Attestor {
            name: attestor.name.value.clone(),
            body,
            expressions,
        });
    }
    Ok(compiled)
}

/// The part of an attestor that upstream prints with an error in one of its expressions.
fn written_part(body: &Document, path: &str) -> String {
    let keys: Vec<&str> = match path {
        "cosign.certificate.cert" | "cosign.certificate.certChain" => vec!["cosign", "certificate"],
        "notary.certs" | "notary.tsaCerts" => vec!["notary"],
        path => path.split('.').collect(),
    };
    let part = body.root().at(&keys);
    part.map_or_else(|| "null".to_owned(), Value::to_json)
}
