"""Logs as programs write them, in many styles: usual lines by the hundred, and a rare one.

Each style has a function that dresses a message in its own stamp, level and source, and messages
that its programs write again and again, with what varies in them. Styles that have no messages of
their own, such as an access log, make whole lines.
"""

# ruff: noqa: E501  lines of logs are long

import json
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

USERS = ["alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan", "judy",
         "mallory", "niaj", "olivia", "peggy", "rupert", "sybil", "trent", "victor"]  # fmt: skip
PATHS = ["/", "/login", "/cart", "/api/v1/orders", "/api/v1/items/{n}", "/static/app.js", "/about",
         "/search?q=lamp", "/img/logo.png", "/api/v2/users/{n}/settings", "/health"]  # fmt: skip
AGENTS = [
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148",
    "curl/8.5.0",
    "kube-probe/1.29",
    "Googlebot/2.1 (+http://www.google.com/bot.html)",
]
MODULES = ["auth", "cache", "db.pool", "http.server", "jobs.mailer", "metrics", "scheduler"]
USUAL = [
    "request {hex} served in {n} ms",
    "user {user} logged in from {ip}",
    "cache hit for key session:{hex}",
    "job {n} finished in {f}s, {n} rows",
    "heartbeat ok, load {f}",
    "connection from {ip}:{n} accepted",
    "flushed {n} entries to disk",
    "GET {path} 200 {n}ms",
    "polling queue orders, {n} messages",
    "checkpoint {n} written",
]
ONCE = [
    "starting version 4.{n}.1",
    "reading settings from /etc/app/settings.toml",
    "listening on 0.0.0.0:8080",
    "connected to db-{n}.internal",
    "ready after {f} seconds",
]
FAILING = [
    "database connection refused by db-7",
    "permission denied: /var/lib/app/state",
    "job 4711 failed with exit code 137",
    "worker 3 was killed: out of memory",
    "timed out waiting for lock orders_pkey",
    "panic: runtime error: index out of range [5] with length 3",
    "java.lang.NullPointerException: order.customer is null",
    "certificate for api.example.com has expired",
    "segfault at 7f3a ip 00007f3a sp 00007ffd in libc-2.31.so",
    "no space left on device",
    "checksum mismatch in block 88213",
    "could not resolve host payments.internal",
    "transaction rolled back: deadlock detected",
    "disk /dev/sdb1 is unreachable",
    "Verbindung verweigert: Zeitüberschreitung bei db-7",
    "échec de la connexion au serveur de paiement",
    "не удалось открыть файл настроек",
    "数据库连接失败",
    "データベース接続に失敗しました",
]
QUIET = [
    "operator {user} switched the feature flag new-checkout on",
    "leader is now node-{n}, term {n}",
    "schema migrated to revision 20240611",
    "settings were read again by request of the administrator",
    "snapshot uploaded to s3://backups/nightly",
    "certificate renewed, valid until 2025-09-01",
    "replica promoted to primary in zone eu-west",
    "retention shortened to thirty days for tenant acme",
    "garbage collector changed to zgc",
    "maintenance window begins",
]

Dress = Callable[[random.Random, datetime, str, str], str]
"""A line from chance, time, level and message."""


def filled(message: str, chance: random.Random) -> str:
    """A message with values in the place of what varies."""
    while "{" in message:
        name = message[message.index("{") + 1 : message.index("}")]
        value = {
            "n": lambda: str(chance.randrange(1, 99_999)),
            "f": lambda: f"{chance.random() * 20:.3f}",
            "hex": lambda: f"{chance.getrandbits(48):012x}",
            "user": lambda: chance.choice(USERS),
            "ip": lambda: ".".join(str(chance.randrange(1, 255)) for _ in range(4)),
            "path": lambda: chance.choice(PATHS),
        }[name]()
        message = message.replace("{" + name + "}", value, 1)
    return message


class LogStyle(NamedTuple):
    """How one kind of program logs."""

    name: str
    dress: Dress
    levels: Sequence[str] = ("INFO", "DEBUG", "WARN", "ERROR")
    usual: Sequence[str] = USUAL
    lines: Callable[[random.Random, datetime], str] | None = None
    """Makes a whole usual line; without, a usual message is dressed."""

    def usual_line(self, chance: random.Random, when: datetime) -> str:
        """One of the lines that come again and again."""
        if self.lines is not None:
            return self.lines(chance, when)
        level = self.levels[chance.random() < 0.2]
        return self.dress(chance, when, level, filled(chance.choice(self.usual), chance))

    def text(self, chance: random.Random, size: int, planted: Sequence[str] = ()) -> str:
        """A log of so many lines, with these lines at random places."""
        when = datetime(2024, 6, 11, 23, 50, tzinfo=UTC)
        lines: list[str] = []
        if self.lines is None:
            for message in ONCE:
                when += timedelta(milliseconds=chance.randrange(10, 900))
                lines.append(self.dress(chance, when, self.levels[0], filled(message, chance)))
        while len(lines) < size:
            when += timedelta(milliseconds=chance.randrange(10, 3_000))
            lines.append(self.usual_line(chance, when))
        for line in planted:
            lines.insert(chance.randrange(1, len(lines)), line)
        return "\n".join(lines)

    def rare_line(self, chance: random.Random, level: str, message: str) -> str:
        """A message of a level as this style has it, at some time."""
        when = datetime(2024, 6, 12, 0, 10, chance.randrange(60), tzinfo=UTC)
        return self.dress(chance, when, level, filled(message, chance))


def _iso(when: datetime) -> str:
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _syslog(chance: random.Random, when: datetime, level: str, message: str) -> str:
    program = chance.choice(["app", "cron", "sshd", "dockerd"])
    return f"{when:%b %d %H:%M:%S} web-{chance.randrange(1, 4)} {program}[{chance.randrange(900, 9000)}]: {message}"


def _rfc5424(chance: random.Random, when: datetime, level: str, message: str) -> str:
    priority = {"INFO": 14, "DEBUG": 15, "WARN": 12, "ERROR": 11}.get(level, 14)
    return f"<{priority}>1 {_iso(when)} host{chance.randrange(1, 5)} app {chance.randrange(900, 9000)} ID{chance.randrange(1, 99)} - {message}"


def _journald(chance: random.Random, when: datetime, level: str, message: str) -> str:
    unit = chance.choice(["app.service", "nginx", "kernel"])
    return f"{when:%b %d %H:%M:%S.%f} host {unit}[{chance.randrange(300, 900)}]: {message}"


def _log4j(chance: random.Random, when: datetime, level: str, message: str) -> str:
    name = chance.choice(
        ["c.e.shop.OrderService", "c.e.shop.CartController", "o.a.k.NetworkClient"]
    )
    line = (
        f"{when:%Y-%m-%d %H:%M:%S,%f}"[:-3]
        + f" {level:5} [http-nio-{chance.randrange(1, 20)}] {name} - {message}"
    )
    if level == "ERROR":
        line += "".join(
            f"\n\tat com.example.shop.{part}(Order.java:{chance.randrange(20, 400)})"
            for part in ("OrderService.load", "OrderService.run", "Main.main")
        )
    return line


def _glog(chance: random.Random, when: datetime, level: str, message: str) -> str:
    source = chance.choice(["server.go:112", "pool.go:88", "main.go:41", "lease.go:230"])
    return f"{level[0]}{when:%m%d %H:%M:%S.%f} {chance.randrange(1, 9):7} {source}] {message}"


def _zap(chance: random.Random, when: datetime, level: str, message: str) -> str:
    return json.dumps(
        {
            "level": level.lower(),
            "ts": when.timestamp(),
            "caller": f"server/{chance.choice(['http', 'db'])}.go:{chance.randrange(10, 300)}",
            "msg": message,
            "trace_id": f"{chance.getrandbits(64):016x}",
        },
        ensure_ascii=False,
    )


def _logrus(chance: random.Random, when: datetime, level: str, message: str) -> str:
    level = {"WARN": "warning"}.get(level, level.lower())
    return f'time="{_iso(when)}" level={level} msg={json.dumps(message, ensure_ascii=False)} component={chance.choice(MODULES)} id={chance.getrandbits(32):08x}'


def _compose(chance: random.Random, when: datetime, level: str, message: str) -> str:
    service = chance.choice(["web-1 ", "db-1  ", "worker-2"])
    return f"{service}  | {_iso(when)} [{level.lower()}] {message}"


def _python(chance: random.Random, when: datetime, level: str, message: str) -> str:
    level = {"WARN": "WARNING"}.get(level, level)
    line = f"{when:%Y-%m-%d %H:%M:%S},{chance.randrange(1000):03} - {chance.choice(MODULES)} - {level} - {message}"
    if level == "ERROR":
        line += f'\nTraceback (most recent call last):\n  File "/srv/app/{chance.choice(MODULES)}.py", line {chance.randrange(9, 300)}, in run\n    self.load(order)\nRuntimeError: {message}'
    return line


def _actions(chance: random.Random, when: datetime, level: str, message: str) -> str:
    mark = {"ERROR": "##[error]", "WARN": "##[warning]", "DEBUG": "##[debug]"}.get(level, "")
    return f"{when:%Y-%m-%dT%H:%M:%S.%f}0Z {mark}{message}"


def _dmesg(chance: random.Random, when: datetime, level: str, message: str) -> str:
    return f"[{when.timestamp() % 90_000:12.6f}] {message}"


def _postgres(chance: random.Random, when: datetime, level: str, message: str) -> str:
    level = {"INFO": "LOG", "DEBUG": "STATEMENT", "WARN": "WARNING"}.get(level, level)
    return (
        f"{when:%Y-%m-%d %H:%M:%S.%f}"[:-3]
        + f" UTC [{chance.randrange(80, 900)}] {chance.choice(USERS[:4])}@shop {level}:  {message}"
    )


def _mysql(chance: random.Random, when: datetime, level: str, message: str) -> str:
    level = {"INFO": "Note", "DEBUG": "System", "WARN": "Warning"}.get(level, "ERROR")
    return f"{when:%Y-%m-%dT%H:%M:%S.%fZ} {chance.randrange(0, 90)} [{level}] [MY-01{chance.randrange(1000, 9999)}] [Server] {message}"


def _windows(chance: random.Random, when: datetime, level: str, message: str) -> str:
    level = {"INFO": "Information", "DEBUG": "Verbose", "WARN": "Warning"}.get(level, "Error")
    source = chance.choice(["Service Control Manager", "Microsoft-Windows-Kernel-Power", "DCOM"])
    return f"{when:%m/%d/%Y %I:%M:%S %p}  {level:12} {source:32} {chance.randrange(1, 9999):5}  {message}"


def _apache(chance: random.Random, when: datetime, level: str, message: str) -> str:
    level = {"INFO": "core:notice", "DEBUG": "ssl:info", "WARN": "proxy:warn"}.get(
        level, "core:error"
    )
    return f"[{when:%a %b %d %H:%M:%S.%f %Y}] [{level}] [pid {chance.randrange(900, 9000)}:tid {chance.getrandbits(40)}] [client {filled('{ip}', chance)}:{chance.randrange(1024, 65000)}] {message}"


def _nginx_error(chance: random.Random, when: datetime, level: str, message: str) -> str:
    level = {"INFO": "info", "DEBUG": "notice", "WARN": "warn"}.get(level, "error")
    return f"{when:%Y/%m/%d %H:%M:%S} [{level}] {chance.randrange(20, 90)}#{chance.randrange(20, 90)}: *{chance.randrange(1, 99999)} {message}, client: {filled('{ip}', chance)}, server: shop.example.com"


def _logcat(chance: random.Random, when: datetime, level: str, message: str) -> str:
    tag = chance.choice(["ActivityManager", "WifiService", "PowerUI"])
    return (
        f"{when:%m-%d %H:%M:%S.%f}"[:-3]
        + f" {chance.randrange(500, 2000):5} {chance.randrange(500, 2000):5} {level[0]} {tag}: {message}"
    )


def _elixir(chance: random.Random, when: datetime, level: str, message: str) -> str:
    return (
        f"{when:%H:%M:%S.%f}"[:-3]
        + f" request_id={chance.getrandbits(60):015x} [{level.lower()}] {message}"
    )


def _kafka(chance: random.Random, when: datetime, level: str, message: str) -> str:
    return (
        f"[{when:%Y-%m-%d %H:%M:%S,%f}"[:-3]
        + f"] {level} [Partition orders-{chance.randrange(12)} broker={chance.randrange(3)}] {message} (kafka.cluster.Partition)"
    )


def _redis(chance: random.Random, when: datetime, level: str, message: str) -> str:
    mark = {"INFO": "*", "DEBUG": "-", "WARN": "#"}.get(level, "#")
    return f"{chance.randrange(1, 9)}:M {when:%d %b %Y %H:%M:%S.%f}"[:-3] + f" {mark} {message}"


def _german(chance: random.Random, when: datetime, level: str, message: str) -> str:
    month = "Januar Februar März April Mai Juni Juli August September Oktober November Dezember"
    level = {"INFO": "Info", "DEBUG": "Debug", "WARN": "Warnung"}.get(level, "Fehler")
    return f"{when.day}. {month.split()[when.month - 1]} {when.year} um {when:%H:%M:%S} Uhr {level}: {message}"


def _chinese(chance: random.Random, when: datetime, level: str, message: str) -> str:
    level = {"INFO": "信息", "DEBUG": "调试", "WARN": "警告"}.get(level, "错误")
    return f"{when.year}年{when.month}月{when.day}日 {when:%H:%M:%S} [{level}] {message}"


def _french(chance: random.Random, when: datetime, level: str, message: str) -> str:
    month = [
        "janv.",
        "févr.",
        "mars",
        "avr.",
        "mai",
        "juin",
        "juil.",
        "août",
        "sept.",
        "oct.",
        "nov.",
        "déc.",
    ][when.month - 1]
    level = {"INFO": "infos", "DEBUG": "précis", "WARN": "avertissement"}.get(level, "GRAVE")
    return f"{month} {when.day}, {when.year} {when:%I:%M:%S %p} org.apache.catalina.core.StandardService {level}: {message}"


def _lambda(chance: random.Random, when: datetime, level: str, message: str) -> str:
    return f"{_iso(when)}\t{chance.getrandbits(32):08x}-{chance.getrandbits(16):04x}-4{chance.getrandbits(12):03x}-9abc-{chance.getrandbits(48):012x}\t{level}\t{message}"


def _bare(chance: random.Random, when: datetime, level: str, message: str) -> str:
    return message if level in ("INFO", "DEBUG") else f"{level}: {message}"


def _bunyan(chance: random.Random, when: datetime, level: str, message: str) -> str:
    number = {"INFO": 30, "DEBUG": 20, "WARN": 40, "ERROR": 50}[level]
    return json.dumps(
        {
            "name": "shop",
            "hostname": "web-1",
            "pid": chance.randrange(99),
            "level": number,
            "msg": message,
            "time": _iso(when),
            "v": 0,
        }
    )


def _rails(chance: random.Random, when: datetime, level: str, message: str) -> str:
    return f"{level[0]}, [{_iso(when)} #{chance.randrange(90, 999)}] {level:>5} -- : [{chance.getrandbits(64):016x}] {message}"


# whole lines


def _access(chance: random.Random, when: datetime) -> str:
    path, status = filled(chance.choice(PATHS), chance), chance.choice([200] * 12 + [304, 301, 204])
    return (
        f"{filled('{ip}', chance)} - - [{when:%d/%b/%Y:%H:%M:%S +0000}] "
        f'"{chance.choice(["GET", "GET", "POST"])} {filled(path, chance)} HTTP/1.1" {status} '
        f'{chance.randrange(100, 90_000)} "-" "{chance.choice(AGENTS)}"'
    )


def _access_dress(chance: random.Random, when: datetime, level: str, message: str) -> str:
    line = _access(chance, when)
    if level == "ERROR":
        return (
            line.replace("HTTP/1.1", "HTTP/1.1", 1)
            .replace('" 200 ', '" 502 ')
            .replace('" 304 ', '" 502 ')
            .replace('" 301 ', '" 502 ')
            .replace('" 204 ', '" 502 ')
        )
    return f'{filled("{ip}", chance)} - {chance.choice(USERS)} [{when:%d/%b/%Y:%H:%M:%S +0000}] "PROPFIND /dav/{message.split()[0]} HTTP/1.1" 207 12 "-" "davfs2/1.6"'


def _pytest(chance: random.Random, when: datetime) -> str:
    part = chance.choice(["orders", "cart", "users", "payments", "search"])
    return f"tests/{part}/test_{part}_{chance.choice('abcdefgh')}.py::test_{chance.choice(USERS)}_{chance.choice(MODULES).replace('.', '_')} PASSED [{chance.randrange(100):3}%]"


def _pytest_dress(chance: random.Random, when: datetime, level: str, message: str) -> str:
    if level == "ERROR":
        return _pytest(chance, when).replace("PASSED", "FAILED")
    return f"---------- {message} ----------"


def _npm(chance: random.Random, when: datetime) -> str:
    name = chance.choice(
        ["lodash", "react", "webpack", "eslint", "babel-core", "left-pad", "chalk"]
    )
    return filled(
        chance.choice(
            [
                f"npm http fetch GET 200 https://packages.example.org/{name} {{n}}ms (cache hit)",
                f"npm sill placeDep ROOT {name}@{{n}}.0.1 OK for: shop@1.0.0",
                "npm timing reify:unpack Completed in {n}ms",
            ]
        ),
        chance,
    )


def _npm_dress(chance: random.Random, when: datetime, level: str, message: str) -> str:
    return f"npm ERR! {message}" if level == "ERROR" else f"npm notice {message}"


def _gradle(chance: random.Random, when: datetime) -> str:
    part = chance.choice(["app", "core", "data", "feature-cart", "feature-login", "network"])
    task = chance.choice(
        ["compileJava", "processResources", "classes", "jar", "compileTestJava", "test"]
    )
    return f"> Task :{part}:{task}{chance.choice(['', ' UP-TO-DATE', ' NO-SOURCE', ' FROM-CACHE'])}"


def _gradle_dress(chance: random.Random, when: datetime, level: str, message: str) -> str:
    return "> Task :data:migrate FAILED" if level == "ERROR" else f"Note: {message}"


def _maven(chance: random.Random, when: datetime) -> str:
    name = chance.choice(["spring-core", "jackson-databind", "guava", "slf4j-api", "netty-common"])
    return filled(
        chance.choice(
            [
                f"[INFO] Downloaded from central: https://repo.maven.apache.org/maven2/org/{name}/{{n}}/{name}.jar ({{n}} kB at {{f}} MB/s)",
                "[INFO] Tests run: {n}, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: {f} s - in com.example.OrderTest",
                "[INFO] Copying {n} resources",
            ]
        ),
        chance,
    )


def _maven_dress(chance: random.Random, when: datetime, level: str, message: str) -> str:
    return f"[{ {'WARN': 'WARNING'}.get(level, level) }] {message}"


def _cargo(chance: random.Random, when: datetime) -> str:
    name = chance.choice(
        [
            "serde",
            "tokio",
            "hyper",
            "syn",
            "quote",
            "libc",
            "regex",
            "rand",
            "clap",
            "anyhow",
            "bytes",
            "mio",
        ]
    )
    return filled(
        f"{chance.choice(['   Compiling', '  Downloaded', '    Checking'])} {name}-{chance.choice(['core', 'macros', 'derive', 'util'])} v{{n}}.{{n}}.0",
        chance,
    )


def _cargo_dress(chance: random.Random, when: datetime, level: str, message: str) -> str:
    return f"error[E0425]: {message}" if level == "ERROR" else f"     Locking {message}"


def _terraform(chance: random.Random, when: datetime) -> str:
    name = chance.choice(
        ["aws_instance.web", "aws_s3_bucket.logs", "aws_iam_role.ci", "aws_subnet.private"]
    )
    return filled(
        chance.choice(
            [
                f"{name}[{{n}}]: Refreshing state... [id=i-{{hex}}]",
                f"{name}[{{n}}]: Still creating... [{{n}}s elapsed]",
                f"{name}[{{n}}]: Creation complete after {{n}}s [id=i-{{hex}}]",
            ]
        ),
        chance,
    )


def _terraform_dress(chance: random.Random, when: datetime, level: str, message: str) -> str:
    return f"Error: {message}" if level == "ERROR" else f"{message}"


def _kernel(chance: random.Random, when: datetime) -> str:
    message = chance.choice(
        [
            "usb {n}-1: new high-speed USB device number {n} using xhci_hcd",
            "IPv6: ADDRCONF(NETDEV_CHANGE): veth{hex}: link becomes ready",
            'audit: type=1400 audit({n}.{n}:{n}): apparmor="STATUS" operation="profile_load"',
            "docker0: port {n}(veth{hex}) entered forwarding state",
            "EXT4-fs (sda{n}): mounted filesystem with ordered data mode",
        ]
    )
    return _dmesg(chance, when, "INFO", filled(message, chance))


def _systemd(chance: random.Random, when: datetime) -> str:
    unit = chance.choice(
        [
            "Daily Cleanup",
            "Session {n} of User root",
            "Network Time Synchronization",
            "Docker Engine",
        ]
    )
    return f"{when:%b %d %H:%M:%S} host systemd[1]: {chance.choice(['Starting', 'Started', 'Finished'])} {filled(unit, chance)}."


def _systemd_dress(chance: random.Random, when: datetime, level: str, message: str) -> str:
    head = f"{when:%b %d %H:%M:%S} host systemd[1]: "
    return head + (
        "app.service: Main process exited, code=exited, status=203/EXEC"
        if level == "ERROR"
        else f"app.service: {message}"
    )


def _haproxy(chance: random.Random, when: datetime) -> str:
    return f'{when:%b %d %H:%M:%S} lb haproxy[{chance.randrange(90, 99)}]: {filled("{ip}", chance)}:{chance.randrange(1024, 60000)} [{when:%d/%b/%Y:%H:%M:%S.%f}] fe_http be_app/app-{chance.randrange(1, 5)} 0/0/{chance.randrange(9)}/{chance.randrange(90)}/{chance.randrange(120)} 200 {chance.randrange(200, 9000)} - - ---- {chance.randrange(40)}/{chance.randrange(40)}/0/0/0 0/0 "GET {filled(chance.choice(PATHS), chance)} HTTP/1.1"'


def _haproxy_dress(chance: random.Random, when: datetime, level: str, message: str) -> str:
    head = f"{when:%b %d %H:%M:%S} lb haproxy[91]: "
    return head + (
        "Server be_app/app-3 is DOWN, reason: Layer4 connection problem"
        if level == "ERROR"
        else message
    )


def _ansible(chance: random.Random, when: datetime) -> str:
    host = f"{chance.choice(['web', 'db', 'cache'])}{chance.randrange(1, 30):02}"
    return chance.choice(
        [
            f"ok: [{host}]",
            f"changed: [{host}]",
            f"skipping: [{host}]",
            f"{host}                      : ok={chance.randrange(9, 40)}   changed={chance.randrange(5)}    unreachable=0    failed=0    skipped={chance.randrange(9)}",
        ]
    )


def _ansible_dress(chance: random.Random, when: datetime, level: str, message: str) -> str:
    return (
        f'fatal: [web07]: FAILED! => {{"changed": false, "msg": "{message}"}}'
        if level == "ERROR"
        else f"TASK [{message}] ****"
    )


TUNED = (
    LogStyle("syslog", _syslog),
    LogStyle("nginx access", _access_dress, lines=_access),
    LogStyle("log4j", _log4j),
    LogStyle("klog", _glog),
    LogStyle("pytest", _pytest_dress, lines=_pytest),
    LogStyle("JSON lines, zap", _zap),
    LogStyle("dmesg", _dmesg, lines=_kernel),
    LogStyle("PostgreSQL", _postgres),
    LogStyle("GitHub Actions", _actions),
    LogStyle("Python logging", _python),
    LogStyle("cargo", _cargo_dress, lines=_cargo),
    LogStyle("logrus", _logrus),
    LogStyle("Elixir", _elixir),
    LogStyle("no stamp at all", _bare),
)
"""Styles that the digests were made with."""

OTHERS = (
    LogStyle("journald", _journald),
    LogStyle("nginx error", _nginx_error),
    LogStyle("docker compose", _compose),
    LogStyle("npm", _npm_dress, lines=_npm),
    LogStyle("gradle", _gradle_dress, lines=_gradle),
    LogStyle("maven", _maven_dress, lines=_maven),
    LogStyle("Windows events", _windows),
    LogStyle("MySQL", _mysql),
    LogStyle("systemd", _systemd_dress, lines=_systemd),
    LogStyle("Apache errors", _apache),
    LogStyle("terraform", _terraform_dress, lines=_terraform),
    LogStyle("HAProxy", _haproxy_dress, lines=_haproxy),
    LogStyle("Android logcat", _logcat),
    LogStyle("ansible", _ansible_dress, lines=_ansible),
    LogStyle("Redis", _redis),
    LogStyle("Kafka", _kafka),
    LogStyle("RFC 5424", _rfc5424),
    LogStyle("German dates", _german),
    LogStyle("Chinese dates", _chinese),
    LogStyle("French Tomcat", _french),
    LogStyle("AWS Lambda", _lambda),
    LogStyle("bunyan", _bunyan),
    LogStyle("Rails", _rails),
)
"""Styles that nothing was tuned on: they were written first and looked at last."""
