//! The one-liner without the feature that it needs.

fn main() {
    let policy = relent::Policy::default();
    let _call = relent::retry(&policy, || async { Ok::<_, std::io::Error>(1) });
}
