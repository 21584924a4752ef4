"""JupyterHub for one machine and one class. Read it before you use it; `instructors.md` says how.

    python -m jupyterhub -f notebooks/publish/classroom/jupyterhub_config.py

It serves this machine only, at http://127.0.0.1:8000. For a class it stands behind a web server
that speaks HTTPS, and students have accounts on the machine: leave D2L_ATTENTION_TRIAL away.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
STATE = Path(os.environ.get("D2L_ATTENTION_HUB", ROOT / "build" / "hub")).resolve()
STATE.mkdir(parents=True, exist_ok=True)
TRIAL = os.environ.get("D2L_ATTENTION_TRIAL", "")  # the password of a trial, or nothing

c = get_config()  # noqa: F821, JupyterHub gives it
c.JupyterHub.bind_url = os.environ.get("D2L_ATTENTION_HUB_URL", "http://127.0.0.1:8000")
c.JupyterHub.hub_port = int(os.environ.get("D2L_ATTENTION_HUB_PORT", "8081"))
c.JupyterHub.db_url = f"sqlite:///{STATE / 'hub.sqlite'}"
c.JupyterHub.cookie_secret_file = str(STATE / "cookie_secret")
c.ConfigurableHTTPProxy.pid_file = str(STATE / "proxy.pid")
# The proxy that pip installs, so that nobody needs Node.js.
c.ConfigurableHTTPProxy.command = [str(Path(sys.executable).with_name("configurable-http-proxy"))]
c.ConfigurableHTTPProxy.api_url = os.environ.get("D2L_ATTENTION_PROXY", "http://127.0.0.1:8001")

# nbgrader hands out and collects through this folder, which all may write into.
EXCHANGE, COURSE = STATE / "exchange", os.environ.get("D2L_ATTENTION_COURSE", "attention")
EXCHANGE.mkdir(exist_ok=True)
EXCHANGE.chmod(0o777)
settings = [
    "import os",
    "c = get_config()",
    f"c.Exchange.root = {str(EXCHANGE)!r}",
    f"c.CourseDirectory.course_id = {COURSE!r}",
]
if TRIAL:  # all students of a trial are the same account of this machine
    settings.append("c.CourseDirectory.student_id = os.environ.get('JUPYTERHUB_USER', '*')")
(STATE / "config").mkdir(exist_ok=True)
(STATE / "config" / "nbgrader_config.py").write_text("\n".join(settings) + "\n", encoding="utf-8")

# What each student gets: this course, their own copies, and one thread. (No limit of memory: set
# c.Spawner.mem_limit with a spawner that keeps it, such as SystemdSpawner or DockerSpawner.)
c.Spawner.cmd = [sys.executable, "-m", "notebooks.publish.classroom.server"]
c.Spawner.environment = {
    # nbgrader calls other programs by their names.
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    "PYTHONPATH": str(ROOT),
    "JUPYTER_PREFER_ENV_PATH": "1",
    "JUPYTER_CONFIG_PATH": os.pathsep.join(
        [str(ROOT / "notebooks" / "publish" / "jupyterlab"), str(STATE / "config")]
    ),
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
# Ten servers that start at once on two cores take longer than the hub's usual 30 s.
c.Spawner.start_timeout = c.Spawner.http_timeout = 300
c.JupyterHub.concurrent_spawn_limit = 10
c.Authenticator.admin_users = set(os.environ.get("D2L_ATTENTION_INSTRUCTORS", "").split())

if TRIAL:
    # To try it out: every name logs in with this one password, homes are folders in STATE.
    c.JupyterHub.authenticator_class = "shared-password"
    c.SharedPasswordAuthenticator.user_password = TRIAL
    c.Authenticator.allow_all = True
    c.JupyterHub.spawner_class = "simple"
    c.SimpleLocalProcessSpawner.home_dir_template = str(STATE / "homes" / "{username}")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        c.Spawner.args = ["--allow-root"]
else:
    # Accounts of this machine (PAM). Only those of the group `students`, and the instructors.
    c.LocalAuthenticator.allowed_groups = {"students"}
