//! Where the drivers' random numbers come from.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};

use relent_core::{Dice, Policy, entropy};

/// The number for the decision after attempt `attempt` (0: for the start). A seeded policy gives the same ones each
/// time; the others differ from each other, thread by thread and call by call.
pub(crate) fn draw(policy: &Policy, attempt: u32) -> u64 {
    match policy.seed() {
        Some(seed) => entropy(seed, 0, attempt),
        None => roll(),
    }
}

fn roll() -> u64 {
    thread_local! {
        static DICE: Cell<Option<Dice>> = const { Cell::new(None) };
    }
    DICE.with(|cell| {
        let mut dice = cell.get().unwrap_or_else(|| Dice::new(RandomState::new().build_hasher().finish()));
        let number = dice.roll();
        cell.set(Some(dice));
        number
    })
}
