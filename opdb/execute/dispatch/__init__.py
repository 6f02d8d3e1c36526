"""Runs a model partly on QNN graphs, partly on the host: planned with reasons, prepared once, run many times.

plan = partition(export(module, inputs), Target("HTP", "SM8650"), unsupported="host", host="torch")
print(plan.table())
with Backend.open("HTP", "SM8650") as backend, Dispatcher(plan, backend) as dispatcher:
    outputs = dispatcher.run([x])
    print(dispatcher.report().table())
"""

from opdb.execute.dispatch.configs import graph_of
from opdb.execute.dispatch.dispatcher import Dispatcher
from opdb.execute.dispatch.plan import Plan, PlanError, partition
from opdb.execute.dispatch.report import Report

__all__ = ["Dispatcher", "Plan", "PlanError", "Report", "graph_of", "partition"]
