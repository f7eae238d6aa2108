#!/usr/bin/env python3
"""Runs `relent run` and other programs that retry commands through the same probes, for real.

    docs/compare-run/compare.py [--tools DIR] [--relent PATH]

What can be installed is installed into DIR (default: target/compare-run) by the registries' own clients: apt (as root),
cargo, npm, pip. What cannot is named in the table. Writes README.md (the table) and raw.txt (every command, its output,
its code and its time) beside itself. Needs Python 3.9 and Linux.
"""

import argparse
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LONGEST = 30.0  # seconds that any probe may take


class Tool:
    """A program, how to install it and how to make it run a command up to n times with hardly a wait."""

    def __init__(self, name, find, install, version, retry, timeout=None, wait=None):
        self.name, self.find, self.install, self.version = name, find, install, version
        self.retry, self.timeout, self.wait = retry, timeout, wait
        self.path, self.missing = None, None


def tools(prefix, relent):
    def apt(package):
        return [["apt-get", "install", "-y", "-qq", package]]

    cargo = prefix / "cargo"
    venv = prefix / "venv"

    def crate(name):
        return [["cargo", "install", "-q", "--root", str(cargo), name]]

    return [
        Tool("relent run", lambda: relent, [], ["--version"],
             lambda p, n, c: [p, "run", "-q", "--max-attempts", str(n), "--initial", "10ms", "--", *c],
             lambda p, c: [p, "run", "-q", "--max-attempts", "1", "--attempt-timeout", "1s", "--kill-after", "1s", "--", *c],
             lambda p, c: [p, "run", "-q", "--max-attempts", "3", "--initial", "20s", "--jitter", "none", "--", *c]),
        Tool("Debian's retry", lambda: shutil.which("retry"), apt("retry"), ["dpkg-query", "-W", "-f", "${Version}", "retry"],
             lambda p, n, c: [p, "-t", str(n), "-d", "0", "--", *c], None,
             lambda p, c: [p, "-t", "3", "-d", "20", "--", *c]),
        Tool("attempt-cli", lambda: shutil.which(str(cargo / "bin/attempt")), crate("attempt-cli"), ["--version"],
             lambda p, n, c: [p, "fixed", "-a", str(n), "-w", "0.01", "--", *c],
             lambda p, c: [p, "fixed", "-a", "1", "-w", "0.01", "-t", "1", "--", *c],
             lambda p, c: [p, "fixed", "-a", "3", "-w", "20", "--", *c]),
        Tool("retry-cli (crate)", lambda: next((str(path) for path in (cargo / "bin").glob("retry*")), None),
             crate("retry-cli"), ["cargo-list", "retry-cli"],
             lambda p, n, c: [p, "--attempts", str(n), "--min-duration", "10ms", "--", *c], None,
             lambda p, c: [p, "--attempts", "3", "--min-duration", "20s", "--max-duration", "60s", "--", *c]),
        Tool("retry-cli (npm)", lambda: shutil.which(str(prefix / "npm/node_modules/.bin/retry")),
             [["npm", "install", "--silent", "--prefix", str(prefix / "npm"), "retry-cli"]], ["npm-list", "retry-cli"],
             lambda p, n, c: [p, "-n", str(n - 1), "-t", "10", "--", *c], None,
             lambda p, c: [p, "-n", "2", "-t", "20000", "--", *c]),
        Tool("recur-command (PyPI)", lambda: shutil.which(str(venv / "bin/recur")),
             [[sys.executable, "-m", "venv", str(venv)], [str(venv / "bin/pip"), "install", "-q", "recur-command"]],
             ["--version"],
             lambda p, n, c: [p, "-t", str(n), "-d", "0.01", *c], None,
             lambda p, c: [p, "-t", "3", "-d", "20", *c]),
        Tool("parallel --retries", lambda: shutil.which("parallel"), apt("parallel"), ["--version"],
             lambda p, n, c: [p, "--will-cite", "-q", "-N0", "--retries", str(n), *c, ":::", "once"],
             lambda p, c: [p, "--will-cite", "-q", "-N0", "--timeout", "1", *c, ":::", "once"]),
        Tool("timeout", lambda: shutil.which("timeout"), apt("coreutils"), ["--version"],
             lambda p, n, c: None, lambda p, c: [p, "-k", "1", "1", *c]),
    ]


def prepare(tool, log):
    tool.path = tool.find()
    if tool.path is None:
        for command in tool.install:
            log(f"$ {' '.join(command)}")
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
            except (OSError, subprocess.TimeoutExpired) as error:
                tool.missing = str(error)
                return
            if done.returncode != 0:
                tool.missing = (done.stderr.strip().splitlines() or ["failed"])[-1]
                return
        tool.path = tool.find()
        if tool.path is None:
            tool.missing = "installed, but no program was found"


def version(tool, prefix):
    asked = tool.version
    if asked[0] == "cargo-list":
        text = subprocess.run(["cargo", "install", "--list", "--root", str(prefix / "cargo")], capture_output=True, text=True).stdout
        asked = next((line for line in text.splitlines() if line.startswith(asked[1])), "?")
    elif asked[0] == "npm-list":
        text = (prefix / "npm/node_modules" / asked[1] / "package.json").read_text()
        asked = re.search(r'"version": *"([^"]+)"', text).group(1)
    else:
        command = asked if asked[0] == "dpkg-query" else [tool.path, *asked]
        done = subprocess.run(command, capture_output=True, text=True)
        asked = (done.stdout.strip() or done.stderr.strip()).splitlines()[0]
    found = re.search(r"\d+(\.[\w+~-]+)*", asked)
    return found.group(0) if found else asked


class Probe:
    """Runs commands and keeps the raw record."""

    def __init__(self, raw):
        self.raw = raw

    def run(self, command, stdin=b"", kill=None, after=None, ready=None):
        """The code (negative: the signal), the output and the time. `kill` is sent to the wrapper alone once `ready`."""
        began = time.monotonic()
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        if kill is not None:
            wait_for(ready)
            os.kill(child.pid, kill)
        try:
            out, err = child.communicate(stdin, timeout=LONGEST)
            code = child.returncode
        except subprocess.TimeoutExpired:
            end_session(child.pid)
            out, err = child.communicate()
            code = None
        took = time.monotonic() - began
        self.record(command, code, out, err, took)
        end_session(child.pid)
        return code, out, err, took

    def record(self, command, code, out, err, took):
        shown = " ".join(word if re.fullmatch(r"[\w./:=%+,-]+", word) else "'" + word.replace("'", "'\\''") + "'" for word in command)
        self.raw.append(f"$ {shown}")
        for name, text in (("stdout", out), ("stderr", err)):
            for line in text.decode(errors="backslashreplace").splitlines()[:12]:
                self.raw.append(f"  {name}: {line}")
        self.raw.append(f"  code: {code}, {took:.2f} s")


def wait_for(condition, longest=LONGEST):
    end = time.monotonic() + longest
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)


def lives(pid):
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in "ZX"


def end_session(session):
    """Whatever a wrapper has left: each was started in a session of its own."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
            if int(fields[3]) == session:
                os.kill(int(stat.parent.name), signal.SIGKILL)
        except (OSError, ValueError, IndexError):
            pass


def code_text(code):
    if code is None:
        return f"hung ({LONGEST:.0f} s)"
    return f"signal {signal.Signals(-code).name[3:]}" if code < 0 else str(code)


def good(text, is_good):
    return text if is_good else f"**{text}**"


# Each probe: its title and a function of (probe, tool, scratch) that gives the cell. Bold is what went wrong.
def exhausted(probe, tool, _):
    code = probe.run(tool.retry(tool.path, 2, ["sh", "-c", "exit 7"]))[0]
    return good(code_text(code), code == 7)


def success(probe, tool, _):
    code = probe.run(tool.retry(tool.path, 2, ["true"]))[0]
    return good(code_text(code), code == 0)


def missing(probe, tool, _):
    code = probe.run(tool.retry(tool.path, 2, ["no-such-command"]))[0]
    return good(code_text(code), code == 127)


def not_executable(probe, tool, scratch):
    path = scratch / "text"
    path.write_text("text")
    code = probe.run(tool.retry(tool.path, 2, [str(path)]))[0]
    return good(code_text(code), code == 126)


def killed(probe, tool, _):
    code = probe.run(tool.retry(tool.path, 2, ["sh", "-c", "kill -KILL $$"]))[0]
    return good(code_text(code), code == 137)


def stdin(probe, tool, scratch):
    log = scratch / "log"
    log.unlink(missing_ok=True)
    probe.run(tool.retry(tool.path, 3, ["sh", "-c", f"wc -c >> {log}; exit 1"]), stdin=b"a\nb\nc\n")
    counts = log.read_text().split() if log.exists() else []
    return good(", ".join(counts) or "none", counts == ["6", "6", "6"])


def stdout(probe, tool, scratch):
    count = scratch / "count"
    count.write_text("")
    script = f"echo x >> {count}; n=$(wc -l < {count}); echo out $n; [ $n = 3 ]"
    out = probe.run(tool.retry(tool.path, 3, ["sh", "-c", script]))[1].decode().split()
    lines = [word for word in out if word.isdigit()]
    return "attempts " + (", ".join(lines) or "none")


def argv(probe, tool, _):
    odd = ["it's", '"', "$HOME", "`id`", "\\", "a b", "*", ";", "", "ä"]
    out = probe.run(tool.retry(tool.path, 1, ["printf", "<%s>", *odd]))[1].decode()
    expected = "".join(f"<{word}>" for word in odd)
    return good("ok" if out == expected else "changed", out == expected)


def signal_probe(which):
    def probed(probe, tool, scratch):
        pid_file = scratch / "pid"
        pid_file.write_text("")
        command = ["sh", "-c", f"echo $$ >> {pid_file}; exec sleep 4"]
        line = tool.retry(tool.path, 3, command) or [tool.path, "60", *command]
        began = time.monotonic()
        child = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        wait_for(lambda: pid_file.read_text().endswith("\n"))
        started = pid_file.read_text().split()
        if not started:
            end_session(child.pid)
            child.wait()
            return "**did not start**"
        first = started[0]
        os.kill(child.pid, which)
        try:
            code = child.wait(LONGEST)
        except subprocess.TimeoutExpired:
            code = None
        took = time.monotonic() - began
        left = lives(first)
        attempts = len(pid_file.read_text().split())
        probe.record(line, code, b"", f"after {which.name} to the wrapper: command {'alive' if left else 'gone'}, {attempts} attempt(s)".encode(), took)
        end_session(child.pid)
        text = f"{code_text(code)}, command {'alive' if left else 'gone'}"
        if attempts > 1:
            text += f", {attempts} attempts"
        elif not left and took > 3.5:
            text += ", only at its end"
        # By the signal, or as a shell shows it.
        right = code in (-which, 128 + which) and not left and attempts == 1 and took < 3.5
        return good(text, right)
    return probed


def in_wait(probe, tool, scratch):
    if tool.wait is None:
        return "–"
    log = scratch / "waits"
    log.write_text("")
    line = tool.wait(tool.path, ["sh", "-c", f"echo x >> {log}; exit 1"])
    child = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    wait_for(lambda: log.read_text().endswith("\n"))
    time.sleep(0.3)
    began = time.monotonic()
    child.send_signal(signal.SIGTERM)
    try:
        code = child.wait(LONGEST)
    except subprocess.TimeoutExpired:
        code = None
    took = time.monotonic() - began
    probe.record(line, code, b"", b"after TERM to the wrapper in its wait", took)
    end_session(child.pid)
    return good(f"{code_text(code)} after {took:.1f} s", code == -15 and took < 1)


def on_terminal(command, keys=None, ready=None):
    """Runs it on a terminal of its own; what was shown and how it ended."""
    pid, master = pty.fork()
    if pid == 0:
        os.execvp(command[0], command)
    shown, sent, end = b"", keys is None, time.monotonic() + LONGEST
    while time.monotonic() < end:
        if select.select([master], [], [], 0.05)[0]:
            try:
                part = os.read(master, 4096)
            except OSError:
                break
            if not part:
                break
            shown += part
        if not sent and ready():
            time.sleep(0.2)
            os.write(master, keys)
            sent = True
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if not select.select([master], [], [], 0.1)[0]:
                break
    # The terminal closes a moment before the process is gone.
    wait_for(lambda: os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT), 1.0)
    left, status = os.waitpid(pid, os.WNOHANG)
    if left == 0:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        code = None
    else:
        code = os.waitstatus_to_exitcode(status)
    end_session(pid)
    os.close(master)
    return code, shown


def ctrl_c(probe, tool, scratch):
    # Not by its output: some tools show that only at the end.
    started = scratch / "started"
    started.write_text("")
    line = tool.retry(tool.path, 3, ["sh", "-c", f"echo x >> {started}; exec sleep 4"])
    if line is None:
        return "–"
    began = time.monotonic()
    code, shown = on_terminal(line, b"\x03", started.read_text)
    took = time.monotonic() - began
    probe.record(line, code, shown, b"(on a terminal, with Ctrl-C)", took)
    attempts = len(started.read_text().split())
    text = code_text(code) + (f", {attempts} attempts" if attempts > 1 else "") + (", only at its end" if took > 3.5 else "")
    return good(text, code in (-2, 130) and attempts == 1 and took < 3.5)


def sees_terminal(probe, tool, _):
    script = "for f in 0 1 2; do if [ -t $f ]; then printf 'yes-'; else printf 'no-'; fi; done; echo seen"
    line = tool.retry(tool.path, 1, ["sh", "-c", script])
    if line is None:
        return "–"
    code, shown = on_terminal(line)
    probe.record(line, code, shown, b"(on a terminal)", 0.0)
    seen = re.search(rb"(yes|no)-(yes|no)-(yes|no)-seen", shown)
    answer = "/".join(part.decode() for part in seen.groups()) if seen else "?"
    return good(answer, answer == "yes/yes/yes")


def group_timeout(probe, tool, scratch):
    if tool.timeout is None:
        return "–"
    pids = scratch / "pids"
    pids.write_text("")
    script = f"trap '' TERM; sleep 60 & echo $! >> {pids}; echo $$ >> {pids}; sleep 60"
    line = tool.timeout(tool.path, ["sh", "-c", script])
    began = time.monotonic()
    child = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        code = child.wait(LONGEST)
    except subprocess.TimeoutExpired:
        code = None
    took = time.monotonic() - began
    left = [pid for pid in pids.read_text().split() if lives(pid)]
    probe.record(line, code, b"", f"{len(left)} of 2 processes alive".encode(), took)
    end_session(child.pid)
    for pid in left:
        try:
            os.kill(int(pid), signal.SIGKILL)
        except OSError:
            pass
    child.stdout.close()
    child.stderr.close()
    text = f"{code_text(code)} after {took:.1f} s, {len(left)} of 2 alive"
    return good(text, not left and code is not None)


def spare_timeout(probe, tool, _):
    if tool.timeout is None:
        return "–"
    line = tool.timeout(tool.path, ["sleep", "0.5"])
    code, _, _, took = probe.run(line)
    return good(f"{took:.2f} s", took < 1.0)


def reader_gone(probe, tool, _):
    line = tool.retry(tool.path, 3, ["seq", "1000000"])
    if line is None:
        return "–"
    began = time.monotonic()
    child = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    child.stdout.readline()
    child.stdout.close()
    try:
        err = child.communicate(timeout=LONGEST)[1] or b""
    except subprocess.TimeoutExpired:
        end_session(child.pid)
        err = child.communicate()[1] or b""
    code = child.returncode
    probe.record(line, code, b"", err, time.monotonic() - began)
    end_session(child.pid)
    text = code_text(code) + (", not quiet" if err.strip() else "")
    return good(text, not err.strip())


PROBES = [
    ("code after `exit 7`, 2 attempts", exhausted),
    ("code of a success", success),
    ("command not found", missing),
    ("not executable", not_executable),
    ("ended by KILL", killed),
    ("6 bytes of input, read by 3 attempts", stdin),
    ("output of 2 failures and a success", stdout),
    ("arguments with quotes, `$`, blanks", argv),
    ("TERM to the wrapper alone, in an attempt", signal_probe(signal.SIGTERM)),
    ("HUP to the wrapper alone", signal_probe(signal.SIGHUP)),
    ("INT to the wrapper alone", signal_probe(signal.SIGINT)),
    ("TERM to the wrapper in a wait of 20 s", in_wait),
    ("Ctrl-C on a terminal", ctrl_c),
    ("command sees a terminal (in/out/err)", sees_terminal),
    ("reader of the output leaves", reader_gone),
    ("1 s timeout, group ignores TERM", group_timeout),
    ("`sleep 0.5` under a timeout", spare_timeout),
]


def costs(tools, probe, rounds=500):
    """Time of `true`, alone and under each tool, turn by turn in the same run; and the tool's own peak of memory."""
    lines = {"`true` alone": ["true"]}
    for tool in tools:
        lines[tool.name] = tool.retry(tool.path, 1, ["true"]) or [tool.path, "60", "true"]
    times = {name: [] for name in lines}
    null = [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in range(3)]

    def turn(names):
        for name in names:
            began = time.perf_counter()
            os.waitpid(os.posix_spawnp(lines[name][0], lines[name], os.environ, file_actions=null), 0)
            times[name].append(time.perf_counter() - began)

    for _ in range(5):
        turn(lines)
    # The slow ones would leave nothing in the processor's caches for the quick ones.
    slow = [name for name in lines if min(times[name]) > 0.02]
    quick = [name for name in lines if name not in slow]
    for _ in range(rounds):
        turn(quick)
    for _ in range(20):
        turn(slow)
    # The fastest tenth: what else runs on the machine only ever adds.
    tenth = {name: sorted(measured)[len(measured) // 10] * 1e3 for name, measured in times.items()}
    memory = {}
    for tool in tools:
        # The command looks at its ancestors: the wrapper is the one below us.
        script = f"p=$PPID; m=0; while [ $p -ne {os.getpid()} ] && [ $p -gt 1 ]; do n=$(awk '/VmHWM/ {{print $2}}' /proc/$p/status); m=$((m + n)); p=$(awk '/PPid/ {{print $2}}' /proc/$p/status); done; echo $m >&2"
        line = tool.retry(tool.path, 1, ["sh", "-c", script]) or [tool.path, "60", "sh", "-c", script]
        said = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        numbers = re.findall(r"^\d+$", said.stderr + said.stdout, re.M)
        memory[tool.name] = int(numbers[-1]) / 1024 if numbers else float("nan")
    for name in lines:
        probe.raw.append(f"$ {' '.join(lines[name])}\n  fastest tenth of {len(times[name])}: {tenth[name]:.2f} ms; peak of the wrapper: {memory.get(name, 0):.1f} MB")
    return tenth, memory


def write(present, absent, cells, cost, versions):
    names = [tool.name for tool in present]
    lines = [
        "# `relent run` beside other programs that retry commands",
        "",
        "Made by [`compare.py`](compare.py), which runs all of them for real; the raw record is in [raw.txt](raw.txt). Bold is",
        "what a user would call wrong: a code that is lost, a command that is left running, an input that is gone. A dash: the",
        "tool has no such option. `timeout` retries nothing; it is here for its timeouts.",
        "",
        "| | " + " | ".join(names) + " |",
        "| --- |" + " --- |" * len(names),
        "| version | " + " | ".join(versions[name] for name in names) + " |",
    ]
    for title, _ in PROBES:
        lines.append(f"| {title} | " + " | ".join(cells[title][name] for name in names) + " |")
    tenth, memory = cost
    base = tenth["`true` alone"]
    lines.append("| `true` under it, over `true` alone | " + " | ".join(f"+{tenth[name] - base:.1f} ms" for name in names) + " |")
    lines.append("| its own memory, at most | " + " | ".join(f"{memory[name]:.1f} MB" for name in names) + " |")
    lines += ["", f"`true` alone took {base:.2f} ms (the fastest tenth of 505, turn by turn with the others that are quick).", ""]
    if absent:
        lines += ["Not installed:", ""] + [f"- {tool.name}: {tool.missing}" for tool in absent] + [""]
    (HERE / "README.md").write_text("\n".join(lines))


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--tools", type=Path, default=ROOT / "target/compare-run")
    options.add_argument("--relent", default=None, help="the program to test [default: built by cargo]")
    given = options.parse_args()
    prefix = given.tools.resolve()
    prefix.mkdir(parents=True, exist_ok=True)
    relent = given.relent
    if relent is None:
        subprocess.run(["cargo", "build", "--release", "-q", "-p", "relent-cli"], cwd=ROOT, check=True)
        relent = str(Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/relent")
    raw = []
    probe = Probe(raw)
    all_tools = tools(prefix, relent)
    for tool in all_tools:
        prepare(tool, lambda text: print(text, file=sys.stderr))
    present = [tool for tool in all_tools if tool.missing is None]
    absent = [tool for tool in all_tools if tool.missing is not None]
    versions = {tool.name: version(tool, prefix) for tool in present}
    cells = {title: {} for title, _ in PROBES}
    with tempfile.TemporaryDirectory() as scratch:
        for tool in present:
            raw.append(f"\n=== {tool.name} {versions[tool.name]} ===")
            for title, measure in PROBES:
                print(f"{tool.name}: {title}", file=sys.stderr)
                raw.append(f"\n--- {title}")
                retries = tool.retry(tool.path, 2, ["true"]) is not None
                if not retries and measure in (exhausted, success, missing, not_executable, killed, stdin, stdout, argv):
                    cells[title][tool.name] = "–"
                    continue
                cells[title][tool.name] = measure(probe, tool, Path(scratch))
        raw.append("\n=== cost ===")
        cost = costs(present, probe)
    text = "\n".join(raw).strip() + "\n"
    for place, name in ((str(prefix), "TOOLS"), (scratch, "SCRATCH"), (str(Path(relent).parent), "RELENT"), (str(Path.home()), "HOME")):
        text = text.replace(place, name)
    (HERE / "raw.txt").write_text(text)
    write(present, absent, cells, cost, versions)


if __name__ == "__main__":
    main()
