# hosts: dot.net builds.dotnet.microsoft.com dotnetcli.azureedge.net aka.ms api.nuget.org
# The latest SDK with long support by Microsoft's own script; coverage and formatting.
packages libicu-dev
fetch https://builds.dotnet.microsoft.com/dotnet/scripts/v1/dotnet-install.sh /tmp/dotnet-install.sh
say ".NET SDK"
bash /tmp/dotnet-install.sh --channel LTS --install-dir /opt/dotnet --no-path || unreachable https://builds.dotnet.microsoft.com/
ln -sf /opt/dotnet/dotnet /usr/local/bin/dotnet
export DOTNET_CLI_TELEMETRY_OPTOUT=1 DOTNET_NOLOGO=1
for tool in dotnet-coverage dotnet-reportgenerator-globaltool csharpier; do
    dotnet tool install --tool-path /usr/local/bin "$tool"
done
rm -f /tmp/dotnet-install.sh
