//! Random well-typed expressions: no panic, the same result regardless of repetition and memory, and no `no such
//! overload` if all types are known.

use kyvtest::{
    cel::{
        compile::compile,
        context::Scratch,
        env::Env,
        eval::{Activation, evaluate},
        host::NoHost,
        print,
        profile::Profile,
        query::{Query, run_query},
        syntax,
        types::Type,
        val::Val,
    },
    value::Document,
};
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{FileFailurePersistence, RngSeed},
};

use super::generate::{Choices, Grammar, expression, pod};

/// One sequence of cases, so that a run can be repeated; `PROPTEST_RNG_SEED` chooses another one.
pub(crate) fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    let rng_seed = match default.rng_seed {
        RngSeed::Random => RngSeed::Fixed(1),
        chosen @ RngSeed::Fixed(_) => chosen,
    };
    ProptestConfig {
        rng_seed,
        cases: 3_000,
        max_shrink_iters: 4_000,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("tests/it/cel/regressions.txt"))),
        ..default
    }
}

/// Lists of choices of all lengths.
fn choices() -> impl Strategy<Value = Vec<u16>> {
    vec(any::<u16>(), 0..120)
}

fn profiles() -> [&'static Profile; 2] {
    [Profile::kubernetes(), Profile::kyverno()]
}

/// The variables of the expressions; only `object` has no known type.
struct World {
    env: Env,
    document: Document,
}

impl World {
    fn new(profile: &'static Profile, object: &str) -> Self {
        let mut env = Env::new(profile);
        env.declare("object", Type::Dyn);
        env.declare("b", Type::Bool);
        env.declare("n", Type::Int);
        env.declare("d", Type::Double);
        env.declare("s", Type::String);
        env.declare("names", Type::list(Type::String));
        env.declare("numbers", Type::list(Type::Int));
        env.declare("labels", Type::map(Type::String, Type::String));
        env.declare("maybe", Type::optional(Type::String));
        let text = format!(
            r#"{{"object":{object},"b":true,"n":3,"d":2.5,"s":"some text","names":["b","a","é"],"numbers":[3,1,2],"labels":{{"a":"b","c":"d"}}}}"#
        );
        let document = Document::from_json(&text).expect("the document is JSON");
        Self { env, document }
    }

    /// Value and cost of an expression, evaluated in some memory; `None` if it cannot be compiled.
    fn evaluate(&self, text: &str, memory: &mut Scratch) -> Option<(String, u64)> {
        let program = compile(text, &self.env).ok()?;
        let inner = Val::String("inner");
        let values: Vec<Option<Val<'_>>> = self
            .env
            .variables()
            .iter()
            .map(|variable| match &*variable.name {
                "maybe" => Some(Val::Optional(Some(&inner))),
                name => self.document.root().get(name).map(Val::from),
            })
            .collect();
        let answers: Vec<(String, u64)> = (0..2)
            .map(|_| {
                memory.reset();
                let activation = Activation {
                    values: &values,
                    variables: None,
                };
                let outcome = evaluate(&program, memory, activation, &NoHost, None);
                (print::notation(outcome.value), outcome.cost)
            })
            .collect();
        assert_eq!(answers[0], answers[1], "the second evaluation of {text} differs");
        answers.into_iter().next()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn typed_operands_have_an_overload(choices in choices()) {
        let mut memory = Scratch::new();
        for profile in profiles() {
            let grammar = Grammar { dynamic: false, kyverno: profile.libraries.kyverno.is_some() };
            let text = expression(&mut Choices::new(&choices), grammar);
            let world = World::new(profile, "null");
            if let Err(error) = compile(&text, &world.env) {
                // Only failing constants may keep a well-typed expression from becoming a program.
                let constant = error.phase() == "program" || error.to_string().contains(" argument\n");
                prop_assert!(constant, "{} in {}", error, text);
            }
            let reused = world.evaluate(&text, &mut memory);
            prop_assert_eq!(&reused, &world.evaluate(&text, &mut Scratch::new()), "{}", text);
            if let Some((value, _)) = reused {
                prop_assert!(!value.contains("no such overload"), "{} in {}", value, text);
            }
        }
    }

    #[test]
    fn any_document_has_one_result(choices in choices(), shape in vec(any::<u16>(), 0..16)) {
        let object = pod(&mut Choices::new(&shape));
        let mut memory = Scratch::new();
        for profile in profiles() {
            let grammar = Grammar { dynamic: true, kyverno: profile.libraries.kyverno.is_some() };
            let text = expression(&mut Choices::new(&choices), grammar);
            let world = World::new(profile, &object);
            let reused = world.evaluate(&text, &mut memory);
            prop_assert_eq!(reused, world.evaluate(&text, &mut Scratch::new()), "{}", text);
            let document = Document::from_json(&object).expect("the pod is JSON");
            let query = Query { object: Some(&document), ..Query::new(&text, profile) };
            prop_assert_eq!(run_query(&query), run_query(&query), "{}", text);
        }
    }

    #[test]
    fn parentheses_and_space_change_nothing(choices in choices()) {
        let profile = Profile::kyverno();
        let text = expression(&mut Choices::new(&choices), Grammar { dynamic: true, kyverno: true });
        let tree = |text: &str| syntax::parse(text, &profile.syntax).map(|ast| syntax::print(&ast));
        let plain = tree(&text);
        prop_assert!(plain.is_ok(), "{}", text);
        prop_assert_eq!(&plain, &tree(&format!("\t( {text}\n) // nothing")));
        prop_assert_eq!(&plain, &tree(&text.replace(", ", " ,\n ")));
    }
}
