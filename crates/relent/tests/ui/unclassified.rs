//! An error that says nothing about trying again.

struct Mystery;

fn main() {
    let policy = relent::Policy::default();
    let _ = relent::blocking::retry(&policy, || Err::<(), _>(Mystery));
    let _ = relent::blocking::with(&policy).retry(|_attempt| Err::<(), _>(Mystery));
}
