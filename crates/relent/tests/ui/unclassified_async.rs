//! The same in async code.

struct Mystery;

fn main() {
    let policy = relent::Policy::default();
    let _ = relent::retry(&policy, || async { Err::<(), _>(Mystery) });
    let _ = relent::with(&policy).retry(|_attempt| async { Err::<(), _>(Mystery) });
}
