"""All stacks of a process with a hundred blocked threads: against ClrMD, which holds the process while it reads."""
import json

import oracle
from measure import median, ratio_row, seconds
from patient import PATIENTS, Patient

ROUNDS = 7


def run(bench):
    peer = oracle.build("clrmd")
    ours, theirs, our_pauses, their_pauses = [], [], [], []
    with Patient("blocked", threads=100) as p:
        dac = PATIENTS / "sick" / p.fx / "libmscordaccore.so"
        for _ in range(ROUNDS):  # interleaved, so that noise hits both
            ours.append(bench.weigh([bench.drdotnet, "stacks", p.pid, "--json"]))
            theirs.append(bench.weigh(["dotnet", peer, "live", p.pid, dac]))
            our_pauses.append(json.loads(ours[-1].out)["pauseMs"] / 1000)
            their_pauses.append(float(theirs[-1].out.splitlines()[-1].split()[1]))
        p.truth()
    what = "`stacks` of 100 blocked threads"
    return [
        ratio_row(f"{what} beside ClrMD, wall time", median(w.wall for w in ours), median(w.wall for w in theirs), seconds, None),
        ratio_row(f"{what}, the process stands still", median(our_pauses), median(their_pauses), seconds, None),
    ]
