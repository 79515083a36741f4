"""Attacks on what is judged, each named for what it tries, and all defeated.

Every attack is bounded in processes, bytes and seconds by the test itself, so that a defence which fails costs a red
test and not the machine. Beside each family stands a control: the same without the trick is accepted.
"""
