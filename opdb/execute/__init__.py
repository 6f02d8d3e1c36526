"""Qualcomm's libraries at work: asked, compiled for, executed, dispatched to."""
