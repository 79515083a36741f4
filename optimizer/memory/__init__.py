"""What earlier runs on this machine found, offered as hints: memory proposes, the verifiers judge again."""
