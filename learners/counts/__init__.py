"""What is counted from the training games before a run begins.

Enters: a dataset's training episodes. Leaves: how much steps weigh by their function, and which actions
were ever done.
Must not know: networks, losses, and any game's rules. What is not in the data is not known here.
"""
