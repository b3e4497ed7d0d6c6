"""The few parts of Azure's SDK that scoring scripts use."""
