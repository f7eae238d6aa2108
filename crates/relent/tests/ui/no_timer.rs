//! An async call without a timer: the feature `tokio` is off.

fn main() {
    let policy = relent::Policy::default();
    let _ = relent::with(&policy).retry(|_attempt| async { Err::<(), _>(std::io::Error::other("?")) });
}
