//! What calls of a fleet share, and what each of them holds of it.

use std::collections::{BTreeMap, VecDeque};

use relent_core::{Common, CommonPolicy, Held, Latencies, Race, Share, Timestamp, entropy};

use crate::model::fleet::{Edge, Fleet};
use crate::strategy::{Scope, Strategy};

/// What the calls of a link share, and where its states are among the homes.
#[derive(Clone, Copy)]
pub(super) struct Sharing<'a> {
    pub(super) policy: &'a CommonPolicy,
    /// The first of its homes.
    first: u32,
    /// How far the homes of one caller and those of the next are apart: nothing where all share them.
    per_caller: u32,
    per_shard: bool,
}

impl Sharing<'_> {
    /// Where calls of this caller to this shard have their state.
    pub(super) fn home(&self, caller: u32, shard: u32) -> u32 {
        let shard = if self.per_shard { shard } else { 0 };
        self.first.saturating_add(caller.saturating_mul(self.per_caller)).saturating_add(shard)
    }
}

/// Gives each link's calls their homes.
pub(super) struct Layout<'a> {
    fleet: &'a Fleet,
    /// Strategies that are alike are one.
    strategies: Vec<&'a Strategy>,
    /// Where the homes of (strategy, who calls, whom) begin.
    firsts: BTreeMap<(usize, Option<u32>, Option<&'a str>), u32>,
    homes: u32,
}

impl<'a> Layout<'a> {
    pub(super) fn new(fleet: &'a Fleet) -> Self {
        Self { fleet, strategies: Vec::new(), firsts: BTreeMap::new(), homes: 0 }
    }

    /// How many homes there are.
    pub(super) fn homes(&self) -> u32 {
        self.homes
    }

    /// What calls along `edge` share. `origin` tells kinds of clients and services from each other; there are `callers`
    /// of it.
    pub(super) fn of(
        &mut self,
        edge: &'a Edge,
        strategy: &'a Strategy,
        origin: u32,
        callers: u32,
    ) -> Option<Sharing<'a>> {
        if !strategy.shares() {
            return None;
        }
        let known = self.strategies.iter().position(|known| *known == strategy);
        let number = known.unwrap_or_else(|| {
            self.strategies.push(strategy);
            self.strategies.len() - 1
        });
        let shards = |wanted: &dyn Fn(&str) -> bool| {
            let found = self.fleet.services.iter().filter(|service| wanted(&service.name));
            found.map(|service| service.shards).max().unwrap_or(1)
        };
        let (to, all_shards) = (edge.to.as_str(), strategy.per_shard);
        let (key, of_one, callers) = match strategy.scope {
            Scope::Caller => ((number, Some(origin), Some(to)), shards(&|name| name == to), callers),
            Scope::Service => ((number, None, Some(to)), shards(&|name| name == to), 1),
            Scope::All => ((number, None, None), shards(&|_| true), 1),
        };
        let of_one = if all_shards { of_one } else { 1 };
        let first = *self.firsts.entry(key).or_insert(self.homes);
        if first == self.homes {
            self.homes = self.homes.saturating_add(of_one.saturating_mul(callers));
        }
        let per_caller = if strategy.scope == Scope::Caller { of_one } else { 0 };
        Some(Sharing { policy: &strategy.shared, first, per_caller, per_shard: all_shards })
    }
}

/// Where shared state lives, and what the calls hold of it, by their place.
#[derive(Default)]
pub(super) struct Homes {
    homes: Vec<Option<Box<Home>>>,
    sides: Vec<Side>,
}

/// What some calls share.
struct Home {
    common: Common,
    /// Calls that wait to be admitted, and hear of a place in the bulkhead.
    waiting: VecDeque<(u32, u32)>,
}

/// What one call holds, and its attempts that run beside each other.
pub(super) struct Side {
    home: u32,
    pub(super) held: Held,
    pub(super) race: Option<Racing>,
}

/// A race in progress.
pub(super) struct Racing {
    pub(super) race: Race,
    /// Tells its events from those of other races.
    pub(super) epoch: u32,
    /// When it is looked at next.
    pub(super) due: Option<Timestamp>,
    pub(super) lanes: Vec<Lane>,
    /// What the last attempt that failed held.
    pub(super) failed: Option<(Held, relent_core::Outcome)>,
}

/// An attempt that runs beside others.
pub(super) struct Lane {
    pub(super) epoch: u32,
    /// Its number in the race.
    pub(super) number: u32,
    /// Its place among the attempts.
    pub(super) attempt: u32,
    pub(super) held: Held,
}

/// Of what is longer ago nothing is known about latencies.
const LATENCIES: std::time::Duration = std::time::Duration::from_secs(30);

impl Homes {
    /// Empty ones, for another replication.
    pub(super) fn reset(&mut self, homes: u32) {
        self.homes.clear();
        self.homes.resize_with(homes as usize, || None);
        self.sides.clear();
    }

    /// A call begins that has its state there.
    pub(super) fn begin(&mut self, place: u32, home: u32, policy: &CommonPolicy, seed: u64) {
        if let Some(slot) = self.homes.get_mut(home as usize) {
            slot.get_or_insert_with(|| Box::new(Home::new(policy, entropy(seed, u64::from(home), 0))));
        }
        let place = place as usize;
        if self.sides.len() <= place {
            self.sides.resize_with(place + 1, || Side { home: u32::MAX, held: Held::default(), race: None });
        }
        if let Some(side) = self.sides.get_mut(place) {
            *side = Side { home, held: Held::default(), race: None };
        }
    }

    /// The call's share in what it shares, if it does.
    #[inline]
    pub(super) fn share(&mut self, place: u32) -> Option<Share<'_, Common>> {
        let side = self.sides.get_mut(place as usize)?;
        let home = self.homes.get_mut(side.home as usize)?.as_mut()?;
        Some(Share { parts: &mut home.common, held: &mut side.held })
    }

    /// What the call holds, and what it shares.
    pub(super) fn side(&mut self, place: u32) -> Option<(&mut Side, &mut Common)> {
        let side = self.sides.get_mut(place as usize)?;
        let home = self.homes.get_mut(side.home as usize)?.as_mut()?;
        Some((side, &mut home.common))
    }

    /// The race that the call is in.
    pub(super) fn racing(&self, place: u32) -> Option<&Racing> {
        self.sides.get(place as usize)?.race.as_ref()
    }

    /// A call has ended: what it holds is given back.
    pub(super) fn end(&mut self, place: u32, now: u64) {
        if let Some(mut share) = self.share(place) {
            share.end(Timestamp::from_nanos(now));
        }
        if let Some(side) = self.sides.get_mut(place as usize) {
            side.race = None;
        }
    }

    /// A call waits to be admitted.
    pub(super) fn wait(&mut self, place: u32, epoch: u32) {
        if let Some(home) = self.home(place).filter(|home| home.common.bulkhead.is_some()) {
            home.waiting.push_back((place, epoch));
        }
    }

    /// Those that wait where this call has its state, if there may be room for one of them.
    pub(super) fn wake(&mut self, place: u32) -> impl Iterator<Item = (u32, u32)> + use<> {
        let woken = self.home(place).map(|home| std::mem::take(&mut home.waiting));
        woken.unwrap_or_default().into_iter()
    }

    fn home(&mut self, place: u32) -> Option<&mut Home> {
        let home = self.sides.get(place as usize)?.home;
        self.homes.get_mut(home as usize)?.as_deref_mut()
    }

    #[cfg(test)]
    pub(super) fn commons(&mut self) -> impl Iterator<Item = &mut Common> {
        self.homes.iter_mut().flatten().map(|home| &mut home.common)
    }
}

impl Home {
    fn new(policy: &CommonPolicy, seed: u64) -> Self {
        // It has been looked at before: what cannot be built is not run.
        let mut common = policy.build(seed).unwrap_or_default();
        if policy.hedge.is_some_and(|hedge| hedge.needs_latencies()) && common.latencies.is_none() {
            common.latencies = Some(Latencies::new(LATENCIES));
        }
        Self { common, waiting: VecDeque::new() }
    }
}
