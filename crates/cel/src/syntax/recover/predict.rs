//! Predicts which alternative the text takes.
//!
//! Upstream counterpart: antlr4-go `parser_atn_simulator.go`, `prediction_mode.go`: first without the callers'
//! context and with what was learnt kept in an automaton, then, on a conflict, with it.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    atn::{Atn, StateId, StateKind, Transition},
    grammar::Rule,
    stack::{EMPTY, StackId, Stacks},
    symbols::{EOF, EPSILON},
    tokens::{Stop, TokenId, Tokens},
};

/// A position that an alternative may have reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Config {
    state: StateId,
    alt: u8,
    /// The required precedence; 0 for none.
    predicate: i32,
    stack: StackId,
    /// Whether the rule of the decision was left on the way.
    outer: bool,
    /// Whether the precedence filter must keep it.
    kept: bool,
}

/// The reached positions; those that differ only in their stacks are merged.
#[derive(Debug, Clone, Default)]
struct Configs {
    list: Vec<Config>,
    index: FxHashMap<(StateId, u8, i32), usize>,
}

impl Configs {
    fn add(&mut self, config: Config, full: bool, stacks: &mut Stacks) {
        let key = (config.state, config.alt, config.predicate);
        match self.index.get(&key) {
            None => {
                self.index.insert(key, self.list.len());
                self.list.push(config);
            }
            Some(&at) => {
                let existing = &mut self.list[at];
                existing.stack = stacks.merge(existing.stack, config.stack, !full);
                existing.outer |= config.outer;
                existing.kept |= config.kept;
            }
        }
    }

    /// The only alternative, if there is just one.
    fn unique(&self) -> Option<u8> {
        let first = self.list.first()?.alt;
        self.list.iter().all(|config| config.alt == first).then_some(first)
    }

    /// The alternatives by position and stack.
    fn subsets(&self) -> Vec<u64> {
        let mut subsets: FxHashMap<(StateId, StackId), usize> = FxHashMap::default();
        let mut alts = Vec::new();
        for config in &self.list {
            let at = *subsets.entry((config.state, config.stack)).or_insert_with(|| {
                alts.push(0_u64);
                alts.len() - 1
            });
            alts[at] |= 1 << config.alt;
        }
        alts
    }

    /// Whether some position belongs to one alternative only.
    fn has_state_of_one_alt(&self) -> bool {
        let mut alts: FxHashMap<StateId, u64> = FxHashMap::default();
        for config in &self.list {
            *alts.entry(config.state).or_default() |= 1 << config.alt;
        }
        self.list.iter().any(|config| alts[&config.state].is_power_of_two())
    }
}

/// A state of the automaton of a decision.
struct Node {
    configs: Rc<Configs>,
    /// Target by token (the end of the text first); `Some(None)` is a dead end.
    #[expect(clippy::option_option, reason = "not computed, and computed to be none")]
    edges: [Option<Option<usize>>; 40],
    /// The alternative, if the state decides.
    accepts: Option<u8>,
    conflict: bool,
    /// Precedences to be checked before the decision counts: precedence (0: none) and alternative.
    predicates: Vec<(i32, u8)>,
}

#[derive(Default)]
struct Automaton {
    nodes: Vec<Node>,
    ids: FxHashMap<Vec<Config>, usize>,
    /// The start by precedence.
    starts: FxHashMap<i32, usize>,
}

/// No alternative fits: the token where the decision began and the offending one.
#[derive(Debug, Clone, Copy)]
pub(super) struct NoViable {
    pub(super) start: TokenId,
    pub(super) offending: TokenId,
}

/// The parser's state at a decision.
pub(super) struct Situation<'a> {
    pub(super) decision: StateId,
    pub(super) precedence: i32,
    /// The states to which the enclosing rules return, innermost first.
    pub(super) follows: &'a dyn Fn() -> Vec<StateId>,
}

pub(super) struct Predictor {
    atn: &'static Atn,
    stacks: Stacks,
    /// By the state of the decision.
    automata: Vec<Automaton>,
}

/// The settings of one closure.
struct Closure {
    busy: FxHashSet<(StateId, u8, i32, StackId, bool)>,
    /// Whether callers are known.
    full: bool,
    eof_is_epsilon: bool,
    /// The left-recursive rule whose operator loop is being decided.
    operator_rule: Option<Rule>,
    precedence: i32,
}

impl Predictor {
    pub(super) fn new() -> Self {
        Self {
            atn: Atn::get(),
            stacks: Stacks::new(),
            automata: Atn::get().states.iter().map(|_| Automaton::default()).collect(),
        }
    }

    /// The alternative (from 1) that the text takes.
    pub(super) fn predict(
        &mut self,
        tokens: &mut Tokens<'_>,
        situation: &Situation<'_>,
    ) -> Result<Result<u8, NoViable>, Stop> {
        let start = tokens.index();
        let mut current = self.start(situation);
        let mut at = start;
        loop {
            let symbol = tokens.symbol(at);
            let no_viable = NoViable { start, offending: at };
            let Some(target) = self.target(situation, current, symbol) else {
                let configs = Rc::clone(&self.node(situation, current).configs);
                return Ok(finished(&configs, situation.precedence, self.atn, &self.stacks).ok_or(no_viable));
            };
            let node = self.node(situation, target);
            if node.conflict {
                if !node.predicates.is_empty() {
                    let allowed = allowed(&node.predicates, situation.precedence);
                    if let [alt] = allowed[..] {
                        return Ok(Ok(alt));
                    }
                }
                return self.predict_in_context(tokens, situation, start);
            }
            if let Some(alt) = node.accepts {
                if node.predicates.is_empty() {
                    return Ok(Ok(alt));
                }
                let allowed = allowed(&node.predicates, situation.precedence);
                return Ok(allowed.first().copied().ok_or(NoViable {
                    start,
                    offending: start,
                }));
            }
            if symbol == EOF && target == current {
                // The end of the text repeats itself: nothing more can be learnt.
                return Ok(Err(no_viable));
            }
            current = target;
            at = tokens.after(at)?;
        }
    }

    fn node(&self, situation: &Situation<'_>, id: usize) -> &Node {
        &self.automata[situation.decision as usize].nodes[id]
    }

    fn operator_rule(&self, decision: StateId) -> Option<Rule> {
        let state = self.atn.state(decision);
        state.operator_loop.then_some(state.rule)
    }

    fn start(&mut self, situation: &Situation<'_>) -> usize {
        let operator_rule = self.operator_rule(situation.decision);
        let key = operator_rule.map_or(0, |_| situation.precedence);
        let automaton = &mut self.automata[situation.decision as usize];
        if let Some(start) = automaton.starts.get(&key) {
            return *start;
        }
        let mut configs = self.start_configs(situation, EMPTY, false);
        if operator_rule.is_some() {
            configs = self.filter_precedence(&configs, situation.precedence);
        }
        let id = self.add_node(situation, configs, None, false, Vec::new());
        let automaton = &mut self.automata[situation.decision as usize];
        automaton.starts.insert(key, id);
        id
    }

    fn add_node(
        &mut self,
        situation: &Situation<'_>,
        configs: Configs,
        accepts: Option<u8>,
        conflict: bool,
        predicates: Vec<(i32, u8)>,
    ) -> usize {
        let automaton = &mut self.automata[situation.decision as usize];
        if let Some(id) = automaton.ids.get(&configs.list) {
            return *id;
        }
        let id = automaton.nodes.len();
        automaton.ids.insert(configs.list.clone(), id);
        automaton.nodes.push(Node {
            configs: Rc::new(configs),
            edges: [None; 40],
            accepts,
            conflict,
            predicates,
        });
        id
    }

    fn target(&mut self, situation: &Situation<'_>, from: usize, symbol: i16) -> Option<usize> {
        let edge = (symbol + 1) as usize;
        if let Some(known) = self.node(situation, from).edges[edge] {
            return known;
        }
        let configs = Rc::clone(&self.node(situation, from).configs);
        let target = self.reach(situation, &configs, symbol, false).map(|reach| {
            let (accepts, conflict) = if let Some(alt) = reach.unique() {
                (Some(alt), false)
            } else {
                let subsets = reach.subsets();
                let all_stopped = reach.list.iter().all(|config| self.is_stop(config.state));
                let conflict =
                    all_stopped || (subsets.iter().any(|alts| alts.count_ones() > 1) && !reach.has_state_of_one_alt());
                let alts = subsets.iter().fold(0, |all, alts| all | alts);
                (conflict.then(|| alts.trailing_zeros() as u8), conflict)
            };
            let predicates = match accepts {
                Some(_) => predicates(&reach),
                None => Vec::new(),
            };
            self.add_node(situation, reach, accepts, conflict, predicates)
        });
        self.automata[situation.decision as usize].nodes[from].edges[edge] = Some(target);
        target
    }

    fn predict_in_context(
        &mut self,
        tokens: &mut Tokens<'_>,
        situation: &Situation<'_>,
        start: TokenId,
    ) -> Result<Result<u8, NoViable>, Stop> {
        let mut stack = EMPTY;
        for follow in (situation.follows)().into_iter().rev() {
            stack = self.stacks.push(stack, follow);
        }
        let mut previous = self.start_configs(situation, stack, true);
        let mut at = start;
        loop {
            let symbol = tokens.symbol(at);
            let Some(reach) = self.reach(situation, &previous, symbol, true) else {
                let no_viable = NoViable {
                    start,
                    offending: start,
                };
                return Ok(finished(&previous, situation.precedence, self.atn, &self.stacks).ok_or(no_viable));
            };
            if let Some(alt) = reach.unique() {
                return Ok(Ok(alt));
            }
            let mut lowest = reach.subsets().into_iter().map(|alts| alts.trailing_zeros() as u8);
            if let Some(first) = lowest.next()
                && lowest.all(|alt| alt == first)
            {
                return Ok(Ok(first));
            }
            if symbol == EOF && reach.list == previous.list {
                return Ok(Err(NoViable {
                    start,
                    offending: start,
                }));
            }
            previous = reach;
            at = tokens.after(at)?;
        }
    }

    fn is_stop(&self, state: StateId) -> bool {
        self.atn.state(state).kind == StateKind::RuleStop
    }

    fn start_configs(&mut self, situation: &Situation<'_>, stack: StackId, full: bool) -> Configs {
        let mut configs = Configs::default();
        for (i, transition) in self.atn.state(situation.decision).transitions.iter().enumerate() {
            let config = Config {
                state: transition.target(),
                alt: i as u8 + 1,
                predicate: 0,
                stack,
                outer: false,
                kept: false,
            };
            let mut closure = self.closure_settings(situation, full, false);
            self.close(config, &mut configs, &mut closure, true, 0);
        }
        configs
    }

    fn closure_settings(&self, situation: &Situation<'_>, full: bool, eof_is_epsilon: bool) -> Closure {
        Closure {
            busy: FxHashSet::default(),
            full,
            eof_is_epsilon,
            operator_rule: self.operator_rule(situation.decision),
            precedence: situation.precedence,
        }
    }

    /// Drops operators that bind too loosely, and exits from the loop that an operator covers.
    fn filter_precedence(&mut self, configs: &Configs, precedence: i32) -> Configs {
        let mut filtered = Configs::default();
        let mut first: FxHashMap<StateId, StackId> = FxHashMap::default();
        for config in configs.list.iter().filter(|config| config.alt == 1) {
            if config.predicate != 0 && config.predicate < precedence {
                continue;
            }
            first.insert(config.state, config.stack);
            let config = Config {
                predicate: 0,
                ..*config
            };
            filtered.add(config, false, &mut self.stacks);
        }
        for config in configs.list.iter().filter(|config| config.alt != 1) {
            if !config.kept && first.get(&config.state) == Some(&config.stack) {
                continue;
            }
            filtered.add(*config, false, &mut self.stacks);
        }
        filtered
    }

    /// The positions reached with a token.
    fn reach(&mut self, situation: &Situation<'_>, configs: &Configs, symbol: i16, full: bool) -> Option<Configs> {
        let mut intermediate = Configs::default();
        let mut stopped = Vec::new();
        for config in &configs.list {
            if self.is_stop(config.state) {
                if full || symbol == EOF {
                    stopped.push(*config);
                }
                continue;
            }
            for transition in &self.atn.state(config.state).transitions {
                if transition.matches(symbol) {
                    let config = Config {
                        state: transition.target(),
                        ..*config
                    };
                    intermediate.add(config, full, &mut self.stacks);
                }
            }
        }
        let settled =
            stopped.is_empty() && symbol != EOF && (intermediate.list.len() == 1 || intermediate.unique().is_some());
        let mut reach = if settled {
            intermediate
        } else {
            let mut reach = Configs::default();
            let mut closure = self.closure_settings(situation, full, symbol == EOF);
            for config in &intermediate.list {
                self.close(*config, &mut reach, &mut closure, false, 0);
            }
            if symbol == EOF {
                let unchanged = reach.list == intermediate.list;
                reach = self.only_stopped(reach, unchanged, full);
            }
            reach
        };
        if !full || !reach.list.iter().any(|config| self.is_stop(config.state)) {
            for config in stopped {
                reach.add(config, full, &mut self.stacks);
            }
        }
        (!reach.list.is_empty()).then_some(reach)
    }

    /// At the end of the text only positions at the end of a rule remain.
    fn only_stopped(&mut self, configs: Configs, look_to_end: bool, full: bool) -> Configs {
        if configs.list.iter().all(|config| self.is_stop(config.state)) {
            return configs;
        }
        let mut result = Configs::default();
        for config in &configs.list {
            let state = self.atn.state(config.state);
            if self.is_stop(config.state) {
                result.add(*config, full, &mut self.stacks);
            } else if look_to_end && state.epsilon_only() && self.atn.next(config.state).contains(EPSILON) {
                let config = Config {
                    state: self.atn.stop(state.rule),
                    ..*config
                };
                result.add(config, full, &mut self.stacks);
            }
        }
        result
    }

    fn close(&mut self, config: Config, configs: &mut Configs, closure: &mut Closure, collect: bool, depth: i32) {
        let mut pending = vec![config];
        while let Some(config) = pending.pop() {
            if self.is_stop(config.state) {
                if config.stack != EMPTY {
                    for &(stack, state) in self.stacks.branches(config.stack) {
                        pending.push(Config {
                            state,
                            stack,
                            kept: false,
                            ..config
                        });
                    }
                    continue;
                }
                if closure.full {
                    configs.add(config, true, &mut self.stacks);
                    continue;
                }
            }
            self.close_state(config, configs, closure, collect, depth);
        }
    }

    fn close_state(&mut self, config: Config, configs: &mut Configs, closure: &mut Closure, collect: bool, depth: i32) {
        let atn = self.atn;
        let state = atn.state(config.state);
        if !state.epsilon_only() {
            configs.add(config, closure.full, &mut self.stacks);
        }
        for (i, transition) in state.transitions.iter().enumerate() {
            if i == 0 && self.can_drop_loop(&config) {
                continue;
            }
            let Some(mut next) = self.step(&config, *transition, closure, collect && depth == 0) else {
                continue;
            };
            let mut next_depth = depth;
            let busy = |c: &Config| (c.state, c.alt, c.predicate, c.stack, c.kept);
            if state.kind == StateKind::RuleStop {
                if let (Transition::Epsilon(_, Some(rule)), Some(operator_rule)) = (*transition, closure.operator_rule)
                    && rule == operator_rule
                {
                    next.kept = true;
                }
                next.outer = true;
                if !closure.busy.insert(busy(&next)) {
                    continue;
                }
                next_depth -= 1;
            } else {
                if !transition.is_epsilon() && !closure.busy.insert(busy(&next)) {
                    continue;
                }
                if matches!(transition, Transition::Rule { .. }) && next_depth >= 0 {
                    next_depth += 1;
                }
            }
            self.close(next, configs, closure, collect, next_depth);
        }
    }

    /// The position after an edge that needs no token.
    fn step(
        &mut self,
        config: &Config,
        transition: Transition,
        closure: &Closure,
        collect_here: bool,
    ) -> Option<Config> {
        let mut next = Config {
            state: transition.target(),
            ..*config
        };
        match transition {
            Transition::Epsilon(..) => {}
            Transition::Rule { follow, .. } => next.stack = self.stacks.push(config.stack, follow),
            Transition::Precedence(precedence, _) => {
                if collect_here {
                    if closure.full {
                        if precedence < closure.precedence {
                            return None;
                        }
                    } else {
                        next.predicate = match config.predicate {
                            0 => precedence,
                            other => other.min(precedence),
                        };
                    }
                }
            }
            Transition::Token(..) | Transition::Set(..) => {
                if !closure.eof_is_epsilon || !transition.matches(EOF) {
                    return None;
                }
            }
        }
        Some(next)
    }

    /// Whether re-entering the operator loop would only repeat an enclosing level of the same rule.
    fn can_drop_loop(&self, config: &Config) -> bool {
        let entry = self.atn.state(config.state);
        if !entry.operator_loop || config.stack == EMPTY {
            return false;
        }
        let branches = self.stacks.branches(config.stack);
        if branches
            .iter()
            .any(|branch| self.atn.state(branch.1).rule != entry.rule)
        {
            return false;
        }
        let block = entry.transitions[0].target();
        let block_end = self.atn.state(block).block_end;
        let single = |state: StateId| match self.atn.state(state).transitions[..] {
            [transition] if transition.is_epsilon() => Some(transition.target()),
            _ => None,
        };
        branches.iter().all(|&(_, to)| {
            let Some(target) = single(to) else { return false };
            let is_end = |state: StateId| self.atn.state(state).kind == StateKind::BlockEnd;
            (is_end(to) && target == config.state)
                || Some(to) == block_end
                || Some(target) == block_end
                || (is_end(target) && single(target) == Some(config.state))
        })
    }
}

/// The lowest alternative that completed the rule of the decision; one with permitted precedence takes priority.
fn finished(configs: &Configs, precedence: i32, atn: &Atn, stacks: &Stacks) -> Option<u8> {
    let done = |config: &&Config| {
        config.outer
            || (atn.state(config.state).kind == StateKind::RuleStop && stacks.branches(config.stack).is_empty())
    };
    let lowest = |valid: bool| {
        configs
            .list
            .iter()
            .filter(|config| (config.predicate == 0 || config.predicate >= precedence) == valid)
            .filter(done)
            .map(|config| config.alt)
            .min()
    };
    lowest(true).or_else(|| lowest(false))
}

/// The precedences that the alternatives in question depend on; empty if none.
fn predicates(configs: &Configs) -> Vec<(i32, u8)> {
    let mut by_alt: Vec<(i32, u8)> = Vec::new();
    for config in &configs.list {
        match by_alt.iter_mut().find(|entry| entry.1 == config.alt) {
            None => by_alt.push((config.predicate, config.alt)),
            // Either of two suffices: the looser one, or none at all.
            Some(entry) if entry.0 == 0 || config.predicate == 0 => entry.0 = 0,
            Some(entry) => entry.0 = entry.0.max(config.predicate),
        }
    }
    by_alt.sort_by_key(|entry| entry.1);
    if by_alt.iter().all(|entry| entry.0 == 0) {
        by_alt.clear();
    }
    by_alt
}

fn allowed(predicates: &[(i32, u8)], precedence: i32) -> Vec<u8> {
    predicates
        .iter()
        .filter(|entry| entry.0 == 0 || entry.0 >= precedence)
        .map(|entry| entry.1)
        .collect()
}
