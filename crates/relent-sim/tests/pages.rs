//! The pages that are made quickly are those that stand in the documentation, to the byte.

#[path = "../examples/pages.rs"]
// Its own `main` is not called here.
#[allow(dead_code)]
mod pages;

fn in_step(page: &str) {
    for (path, made) in pages::made(page) {
        let stands = std::fs::read_to_string(&path).unwrap_or_default();
        let command = format!("cargo run --release -p relent-sim --example pages -- {page}");
        assert!(stands == made, "{} is out of date: {command}", path.display());
    }
}

#[test]
fn pages_and_pictures_are_in_step() {
    ["breaker", "adaptive", "collapse"].into_iter().for_each(in_step);
}
