//! Where and with what it was measured.

use std::fmt;
use std::fs;

/// The machine, the compiler, the versions.
pub(crate) struct Machine {
    samples: String,
    processor: String,
    processors: usize,
    load_before: String,
    load_after: String,
    versions: Vec<(&'static str, String)>,
}

impl Machine {
    /// Notes it for the page, with how often was measured and the versions of `peers`.
    pub(crate) fn look(samples: String, peers: &[&'static str]) -> Self {
        Self {
            samples,
            processor: processor(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            load_before: load(),
            load_after: String::new(),
            versions: versions(include_str!("../../../Cargo.lock"), peers),
        }
    }

    /// Notes the load again, after the times.
    pub(crate) fn look_again(&mut self) {
        self.load_after = load();
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        writeln!(f, "- {}, {} processors, {os} {arch}", self.processor, self.processors)?;
        writeln!(f, "- load average (1 min): {} before, {} after", self.load_before, self.load_after)?;
        writeln!(f, "- {}; {}", env!("BENCH_RUSTC"), self.samples)?;
        let versions = self.versions.iter().map(|(name, version)| format!("{name} {version}"));
        writeln!(f, "- {}", versions.collect::<Vec<_>>().join(", "))
    }
}

fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or("unknown processor", |(_, model)| model.trim()).to_owned()
}

fn load() -> String {
    let loads = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    loads.split_whitespace().next().unwrap_or("unknown").to_owned()
}

/// What the lock file says of the peers.
fn versions(lock: &str, peers: &[&'static str]) -> Vec<(&'static str, String)> {
    let lock: toml::Table = toml::from_str(lock).unwrap_or_default();
    let packages = lock.get("package").and_then(toml::Value::as_array).map_or(&[][..], Vec::as_slice);
    let version = |name: &str| {
        let package = packages.iter().find(|package| text(package, "name") == Some(name))?;
        text(package, "version").map(str::to_owned)
    };
    peers.iter().map(|name| (*name, version(name).unwrap_or_else(|| "?".to_owned()))).collect()
}

fn text<'a>(package: &'a toml::Value, key: &str) -> Option<&'a str> {
    package.get(key)?.as_str()
}
