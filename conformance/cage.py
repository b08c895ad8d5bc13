"""A memory cgroup around each probed server: what a claim takes, it takes from there."""
import os
import time

LIMIT = 1200 << 20  # Bytes, as when the recorded outcomes were made.


class Cage:
    def __init__(self, name, limit=LIMIT):
        v1 = os.path.isdir("/sys/fs/cgroup/memory")
        self.path = f"/sys/fs/cgroup/{'memory/' if v1 else ''}rdzvscope-{name}-{os.getpid()}"
        os.mkdir(self.path)
        with open(f"{self.path}/{'memory.limit_in_bytes' if v1 else 'memory.max'}", "w") as f:
            f.write(str(limit))
        self.procs = f"{self.path}/cgroup.procs"

    def inside(self, *command):
        """The command line that runs `command` in here."""
        return ["sh", "-c", f'echo $$ > {self.procs} && exec "$@"', "sh", *command]

    def remove(self):
        for _ in range(50):
            try:
                return os.rmdir(self.path)
            except OSError:
                time.sleep(0.1)
